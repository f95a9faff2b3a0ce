"""Data: datasets, their partition over users, descriptors and skew measures."""

from fedcast.data.assignment import (
    Assignment,
    assignment_from_flwr,
    assignment_from_owners,
    class_counts,
    split_by_shares,
)
from fedcast.data.catalogue import (
    CATALOGUE,
    DatasetEntry,
    data_folders,
    find_source,
    load_dataset,
    presence,
    sample_spec,
)
from fedcast.data.dataset import Dataset, SampleSpec, TextWindows, dataset_from_arrays
from fedcast.data.descriptors import describe
from fedcast.data.partitions import PARTITIONS, Partition, find_partition
from fedcast.data.population import (
    Population,
    counts_file,
    divide,
    make_population,
    populate,
    population_from,
    read_counts,
)
from fedcast.data.skew import (
    Skew,
    Weighting,
    average_emd,
    average_js,
    average_kl,
    distribution_shift,
    emd,
    js_divergence,
    kl_divergence,
    mix_distributions,
    skew_of,
)

__all__ = [
    "CATALOGUE",
    "PARTITIONS",
    "Assignment",
    "Dataset",
    "DatasetEntry",
    "Partition",
    "Population",
    "SampleSpec",
    "Skew",
    "TextWindows",
    "Weighting",
    "assignment_from_flwr",
    "assignment_from_owners",
    "average_emd",
    "average_js",
    "average_kl",
    "class_counts",
    "counts_file",
    "data_folders",
    "dataset_from_arrays",
    "describe",
    "distribution_shift",
    "divide",
    "emd",
    "find_partition",
    "find_source",
    "js_divergence",
    "kl_divergence",
    "load_dataset",
    "make_population",
    "mix_distributions",
    "populate",
    "population_from",
    "presence",
    "read_counts",
    "sample_spec",
    "skew_of",
    "split_by_shares",
]
