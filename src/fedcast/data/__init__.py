"""Data: datasets, their partition over users, descriptors and skew measures.

Some names are imported when first used, since they need a scenario, which is not everywhere where samples are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast._lazy import lazy_names
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
from fedcast.data.counts_noise import COUNTS_SENSITIVITY, counts_of_size, noisy_counts
from fedcast.data.dataset import (
    Dataset,
    Generated,
    SampleSpec,
    TextWindows,
    dataset_from_arrays,
    extend,
    scaled,
    stored,
)
from fedcast.data.descriptors import describe
from fedcast.data.partitions import PARTITIONS, Partition, find_partition
from fedcast.data.population import (
    Population,
    counts_file,
    divide,
    make_population,
    populate,
    population_assumptions,
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

if TYPE_CHECKING:
    from fedcast.data.imports import IMPORT_FORMATS, Imported, import_partition
    from fedcast.data.partitions.indices import read_indices, write_indices

__all__ = [
    "CATALOGUE",
    "COUNTS_SENSITIVITY",
    "IMPORT_FORMATS",
    "PARTITIONS",
    "Assignment",
    "Dataset",
    "DatasetEntry",
    "Generated",
    "Imported",
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
    "counts_of_size",
    "data_folders",
    "dataset_from_arrays",
    "describe",
    "distribution_shift",
    "divide",
    "emd",
    "extend",
    "find_partition",
    "find_source",
    "import_partition",
    "js_divergence",
    "kl_divergence",
    "load_dataset",
    "make_population",
    "mix_distributions",
    "noisy_counts",
    "populate",
    "population_assumptions",
    "population_from",
    "presence",
    "read_counts",
    "read_indices",
    "sample_spec",
    "scaled",
    "skew_of",
    "split_by_shares",
    "stored",
    "write_indices",
]

__getattr__ = lazy_names(__name__, __file__)
