"""Checks that every partition must pass: functions of a partition and its options.

They divide `sample_dataset` among `USERS` users, which must succeed, and smaller and larger worlds, which may also end
in an error that names the setting to change. Every user must hold at least one sample, or as many as an option
``min_samples`` asks for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedcast.data import Assignment, Dataset, Partition, Population, class_counts, divide
from fedcast.testing.common import attempt, check_declaration, contents, sample_data, unchanged
from fedcast.typing import Ints

USERS = 12
# Scenarios accept seeds of 63 bits; 32 of them are not enough.
_SEEDS = (0, 1, 2, 2**32, 2**63 - 1)
_SAMPLE = "the sample dataset"


def declares_itself(partition: Partition, options: Any) -> None:
    """Check the summary, the options, and that exactly one of `counts` and `assign` is set."""
    check_declaration(partition, options)
    assert (partition.counts is None) != (partition.assign is None), "expected exactly one of counts and assign"


def assigns_samples_once(partition: Partition, options: Any) -> None:
    """Check that no sample is assigned twice, and that every sample is assigned if the partition is `complete`."""
    for dataset, _, held in _populations(partition, options):
        assigned, total = len(held.samples), len(dataset)
        assert len(np.unique(held.samples)) == assigned, "a sample is assigned twice"
        if partition.complete:
            assert assigned == total, f"{assigned} of {total} samples are assigned; expected all"


def gives_every_user_samples(partition: Partition, options: Any) -> None:
    """Check that every user holds at least one sample, or as many as the option ``min_samples`` asks for."""
    least = getattr(options, "min_samples", 1)
    for _, people, _ in _populations(partition, options):
        smallest = int(people.sizes.min())
        assert smallest >= least, f"user {people.sizes.argmin()} holds {smallest} samples; expected at least {least}"


def counts_what_users_hold(partition: Partition, options: Any) -> None:
    """Check that the class counts, which need no samples, are those of the samples that users are assigned."""
    for dataset, people, held in _populations(partition, options):
        if partition.counts is not None:
            counts = partition.counts(dataset.class_sizes, people.num_users, options, 0)
            found = class_counts(held, dataset.labels, dataset.num_classes)
            assert np.array_equal(counts, found), "the counts are not those of the samples that users hold"


def repeats_itself(partition: Partition, options: Any) -> None:
    """Check that the same seed gives the same users and the same samples."""
    for dataset, people, _ in _populations(partition, options):
        again = divide(dataset, partition, people.num_users, options, 0)
        assert contents(people) == contents(again), "two calls with the same seed differ"


def uses_the_whole_seed(partition: Partition, options: Any) -> None:
    """Check that every seed is accepted and gives another result, unless the partition is not random."""
    dataset = sample_dataset()
    people = [divide(dataset, partition, USERS, options, seed) for seed in _SEEDS]
    # Samples are always dealt at random: where counts decide the rest, only these are compared.
    counted = partition.counts is not None and partition.transform is None
    found = [contents(each.counts if counted else each) for each in people]
    equal = [one == other for one, other in itertools.combinations(found, 2)]
    assert all(equal) or not any(equal), f"some of the seeds {', '.join(map(str, _SEEDS))} give the same result"


def changes_no_argument(partition: Partition, options: Any) -> None:
    """Check that the dataset is left as it is, by the transform too."""
    dataset = sample_dataset()
    class_sizes = dataset.class_sizes
    with unchanged(dataset, class_sizes):
        divide(dataset, partition, USERS, options, 0)
        if partition.counts is not None:
            partition.counts(class_sizes, USERS, options, 0)


def transforms_samples_of_users_only(partition: Partition, options: Any) -> None:
    """Check that the transformed dataset has as many samples and classes, and that samples of nobody are unchanged."""
    for dataset, people, held in _populations(partition, options):
        made = people.dataset
        assert made is not None
        assert len(made.inputs) == len(made.labels) == len(dataset), "the number of samples has changed"
        assert made.num_classes == dataset.num_classes, "the number of classes has changed"
        assert made.sample_shape == dataset.sample_shape, "the shape of a sample has changed"
        everyone = np.arange(len(dataset))
        values = made.features(everyone)
        assert np.isfinite(values).all(), "an input is not finite"
        assert ((made.labels >= 0) & (made.labels < made.num_classes)).all(), "a label is not a class"
        others = np.setdiff1d(everyone, held.samples)
        assert np.array_equal(values[others], dataset.features(others)), "a sample of no user has changed"
        assert np.array_equal(made.labels[others], dataset.labels[others]), "the label of a sample of no user changed"


CHECKS = (
    declares_itself, assigns_samples_once, gives_every_user_samples, counts_what_users_hold, repeats_itself,
    uses_the_whole_seed, changes_no_argument, transforms_samples_of_users_only,
)  # fmt: skip


def sample_dataset() -> Dataset:
    """Return 1,000 images 8×8 of ten classes of unequal size and 50 owners.

    Example:
        >>> data = sample_dataset()
        >>> len(data), data.num_classes, int(data.class_sizes.min())
        (1000, 10, 46)
    """
    return _images(np.random.default_rng(0).choice(10, 1000, p=np.arange(5, 15) / 95))


def _images(labels: Ints) -> Dataset:
    owners = np.random.default_rng(1).permutation(np.arange(len(labels)) % 50)
    return sample_data(labels, groups=owners)


def _populations(partition: Partition, options: Any) -> Iterator[tuple[Dataset, Population, Assignment]]:
    """Yield datasets, populations and assignments; the first must be possible, others only if no error says why not."""
    gap, two = np.arange(300) % 3 * 2, np.arange(300) % 2
    cases = {
        _SAMPLE: (sample_dataset(), USERS),
        "one user": (sample_dataset(), 1),
        "many users": (sample_dataset(), 200),
        "a class without samples": (_images(gap), USERS),
        "a single class": (_images(np.zeros(300, np.int64)), USERS),
        "a rare class": (_images(np.append(two, 2)), USERS),
        "more users than samples": (_images(two[:20]), 30),
    }
    for name, (dataset, num_users) in cases.items():
        expected = "a population, or a DataError that names the setting to change"
        people, error = attempt(name, expected, _divided, partition, options, dataset, num_users)
        if not error:
            yield dataset, people, people.assignment
            continue
        assert name != _SAMPLE, f"{name}: {error}"
        # A setting, or a file that the options name.
        named = ["data.", *(value for value in vars(options).values() if isinstance(value, str))]
        assert any(word in error for word in named), f"{name}: the error names no setting: {error}"


def _divided(partition: Partition, options: Any, dataset: Dataset, num_users: int) -> Population:
    """Check that the partition returns samples of the dataset for that many users, and return the population."""
    if partition.counts is not None:
        counts = np.asarray(partition.counts(dataset.class_sizes, num_users, options, 0))
        assert counts.dtype.kind in "iu", f"counts have type {counts.dtype}; expected whole numbers"
        expected = (num_users, dataset.num_classes)
        assert counts.shape == expected, f"counts have shape {counts.shape}; expected {expected}"
        assert (counts >= 0).all(), "a count is negative"
        assert (counts.sum(axis=0) <= dataset.class_sizes).all(), "more samples of a class are assigned than there are"
    elif partition.assign is not None:
        held = partition.assign(dataset, num_users, options, 0)
        assert held.num_users == num_users, f"{held.num_users} users; expected {num_users}"
        valid = held.offsets[0] == 0 and held.offsets[-1] == len(held.samples) and (held.sizes >= 0).all()
        assert valid, f"offsets {held.offsets} do not divide {len(held.samples)} samples"
        inside = (held.samples >= 0) & (held.samples < len(dataset))
        assert inside.all(), f"sample {held.samples[~inside][0]} does not exist"
    return divide(dataset, partition, num_users, options, 0)
