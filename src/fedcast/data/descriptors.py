"""Descriptors: one probability vector per user, the mean of one vector per sample.

The planner uses nothing else of the data. Since a descriptor is a mean, the descriptor of combined data is the average
of the descriptors weighted by size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment, class_counts
from fedcast.data.dataset import Dataset, scaled
from fedcast.data.population import Population
from fedcast.errors import DataError
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.scenario import Data


def describe(population: Population, data: Data, seed: int = 0) -> Floats:
    """Return the descriptor of each user times its size, float64[K, B]; row sums are the sizes.

    The table is what `fedcast.data.skew_of` expects; for classes it is the table of counts.

    Example:
        >>> from fedcast.data import make_population
        >>> from fedcast.scenario import Data
        >>> population = make_population(Data(num_users=10, partition="noise"))
        >>> describe(population, Data(num_users=10, descriptor="values")).shape
        (10, 16)
    """
    if data.descriptor == "classes":
        return population.counts.astype(np.float64)
    invalid = f"invalid value {data.descriptor!r} for data.descriptor"
    if population.dataset is None or population.assignment is None:
        raise DataError(f"{invalid}: synthetic data have no inputs; use classes")
    if population.dataset.is_text:
        raise DataError(f"{invalid}: text has no input values; use classes (next characters)")
    if data.descriptor == "values":
        edges = np.linspace(data.value_min, data.value_max, data.value_bins + 1)
        return value_histograms(population.dataset, population.assignment, edges)
    return cluster_histograms(population.dataset, population.assignment, data.feature_clusters, seed=seed)


def value_histograms(dataset: Dataset, assignment: Assignment, edges: Floats) -> Floats:
    """Return the histogram of scaled input values of each user times its size, float64[K, bins].

    Values outside the outer edges are counted in the outer bins.
    """
    inputs = np.asarray(dataset.inputs)
    table = np.zeros((assignment.num_users, len(edges) - 1))
    values_per_sample = inputs[0].size
    bin_of_byte = _bins(scaled(np.arange(256, dtype=np.uint8), dataset.scale), edges)
    for user in range(assignment.num_users):
        held = inputs[assignment.of(user)]
        bins = bin_of_byte[held] if inputs.dtype == np.uint8 else _bins(scaled(held, dataset.scale), edges)
        table[user] = np.bincount(bins.ravel(), minlength=len(edges) - 1) / values_per_sample
    return table


def _bins(values: NDArray[Any], edges: Floats) -> NDArray[np.int64]:
    width = edges[1] - edges[0]
    bins: NDArray[np.int64] = np.clip(((values - edges[0]) / width).astype(np.int64), 0, len(edges) - 2)
    return bins


def cluster_histograms(dataset: Dataset, assignment: Assignment, num_clusters: int, *, seed: int) -> Floats:
    """Return the number of samples of each user in each k-means cluster of the inputs, float64[K, clusters]."""
    from sklearn.cluster import MiniBatchKMeans

    held = np.sort(assignment.samples)
    if num_clusters > len(held):
        raise DataError(
            f"invalid value {num_clusters} for data.feature_clusters: expected at most {len(held)} (samples)"
        )
    inputs = np.asarray(dataset.inputs)
    features = scaled(inputs, dataset.scale).reshape(len(inputs), -1)
    model = MiniBatchKMeans(num_clusters, random_state=seed % 2**32, n_init=3, batch_size=4096).fit(features[held])
    clusters = np.zeros(len(inputs), dtype=np.int64)
    clusters[assignment.samples] = model.predict(features[assignment.samples])
    return class_counts(assignment, clusters, num_clusters).astype(np.float64)
