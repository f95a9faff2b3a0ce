"""Data: datasets, how they are spread over users, and what the planner sees of them."""

from fedcast.data.assignment import Assignment, class_counts
from fedcast.data.catalogue import CATALOGUE, load_dataset, presence
from fedcast.data.dataset import Dataset, TextWindows, dataset_from_arrays
from fedcast.data.descriptors import describe
from fedcast.data.partitions import PARTITIONS
from fedcast.data.population import Population, make_population, populate, population_from
from fedcast.data.skew import Skew, average_emd, skew_of

__all__ = [
    "CATALOGUE",
    "PARTITIONS",
    "Assignment",
    "Dataset",
    "Population",
    "Skew",
    "TextWindows",
    "average_emd",
    "class_counts",
    "dataset_from_arrays",
    "describe",
    "load_dataset",
    "make_population",
    "populate",
    "population_from",
    "presence",
    "skew_of",
]
