"""Every built-in partition and dataset passes its kit, and the kits find what is wrong with broken ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedcast.data import CATALOGUE, PARTITIONS, Assignment, DatasetEntry, Partition, dataset_from_arrays, presence
from fedcast.data.catalogue import SourceFile, fetch
from fedcast.data.partitions.iid import iid
from fedcast.data.shakespeare import text_dataset
from fedcast.errors import DataError
from fedcast.registry import NoOptions, option
from fedcast.testing import datasets, partitions


@pytest.mark.parametrize("check", partitions.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", PARTITIONS)
def test_every_partition_passes_every_check(name, check, tmp_path):
    options = PARTITIONS[name].options()
    if name == "indices":
        path = tmp_path / "indices.npz"
        np.savez(path, samples=np.arange(1000)[::-1], offsets=np.linspace(0, 1000, partitions.USERS + 1).astype(int))
        options = replace(options, file=str(path))
    check(PARTITIONS[name], options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("concept", {"change": "labels", "groups": 3}),
        ("dirichlet", {"alpha": 0.01, "min_samples": 0}),
        ("dirichlet", {"alpha": 0.01, "min_samples": 20}),
        ("label_skew", {"single_class_share": 1.0}),
        ("label_skew", {"single_class_share": 0.0}),
        ("noise", {"level": 0.0}),
        ("quantity", {"alpha": 0.05, "min_samples": 5}),
        ("shards", {"classes_per_user": 10}),
        ("shards", {"classes_per_user": 3, "holders": "random"}),
        ("dirichlet", {"alpha": 0.05, "balanced": True}),
        ("natural", {"join": True}),
    ],
)
def test_partitions_pass_with_other_options(name, options):
    for check in partitions.CHECKS:
        check(PARTITIONS[name], PARTITIONS[name].options(**options))


def _round_robin(dataset, num_users, *_):
    """Return an assignment that is fine."""
    samples = np.arange(len(dataset))
    users = samples * num_users // len(dataset)
    return Assignment(samples, np.concatenate([[0], np.cumsum(np.bincount(users, minlength=num_users))]))


def _counts(change):
    return Partition("broken", counts=lambda *arguments: change(iid(*arguments), arguments[3]))


def _assign(change):
    return Partition("broken", assign=lambda *arguments: change(_round_robin(*arguments)))


def _twice(held):
    return replace(held, samples=np.where(held.samples == 1, 0, held.samples))


def _transform(**changes):
    return Partition("broken", counts=_half, complete=False, transform=lambda dataset, *_: replace(dataset, **changes))


def _half(class_sizes, num_users, *_):
    return iid(class_sizes // 2, num_users, None, 0)


def _write(dataset, *_):
    dataset.inputs[0] = 0
    return dataset


def _unclear(class_sizes, num_users, *_):
    if class_sizes.sum() < num_users:
        raise DataError("too many users")
    return iid(class_sizes, num_users, None, 0)


@dataclass(frozen=True)
class _Undescribed:
    weight: float = 0.5


def _moody():
    calls = iter(range(10**6))
    return Partition("broken", counts=lambda sizes, users, *_: iid(sizes, users, None, next(calls)))


@pytest.mark.parametrize(
    ("check", "partition", "message"),
    [
        (partitions.declares_itself, Partition("both", counts=iid, assign=_round_robin), "exactly one"),
        (partitions.declares_itself, Partition("", counts=iid), "summary"),
        (partitions.declares_itself, Partition("broken", counts=iid, options=_Undescribed), "no description"),
        (partitions.assigns_samples_once, _assign(_twice), "assigned twice"),
        (partitions.assigns_samples_once, _assign(lambda held: replace(held, samples=held.samples + 1)), "not exist"),
        (partitions.assigns_samples_once, Partition("broken", counts=_half), "of 1000 samples are assigned"),
        (partitions.assigns_samples_once, Partition("broken", counts=_unclear), "names no setting"),
        (partitions.assigns_samples_once, Partition("broken", counts=lambda *_: 1 / 0), "division by zero"),
        (partitions.assigns_samples_once, _assign(lambda held: replace(held, offsets=held.offsets[1:])), "11 users"),
        (partitions.assigns_samples_once, _assign(lambda held: replace(held, samples=held.samples[1:])), "offsets"),
        (
            partitions.gives_every_user_samples,
            _assign(lambda held: replace(held, offsets=np.where(np.arange(len(held.offsets)) == 1, 0, held.offsets))),
            "user 0 holds 0 samples",
        ),
        (partitions.counts_what_users_hold, _counts(lambda counts, _: counts * 2), "more samples of a class"),
        (partitions.counts_what_users_hold, _counts(lambda counts, _: counts.T), "counts have shape"),
        (partitions.counts_what_users_hold, _counts(lambda counts, _: counts / 1), "type float64"),
        (partitions.counts_what_users_hold, _counts(lambda counts, _: counts - 100), "negative"),
        (partitions.repeats_itself, _moody(), "same seed"),
        (
            partitions.uses_the_whole_seed,
            Partition("broken", counts=lambda sizes, users, _, seed: iid(sizes, users, None, seed % 2**32)),
            "some of the seeds",
        ),
        (partitions.changes_no_argument, Partition("broken", counts=iid, transform=_write), "changed in place"),
        (partitions.transforms_samples_of_users_only, _transform(labels=np.zeros(1000, np.int64)), "label of a sample"),
        (partitions.transforms_samples_of_users_only, _transform(inputs=np.zeros((9, 1, 8, 8))), "number of samples"),
    ],
)
def test_the_kit_finds_a_broken_partition(check, partition, message):
    with pytest.raises(AssertionError, match=message):
        check(partition, partition.options())


# The test of cifar10, which takes long to decompress, runs the kit itself.
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("file", "synthetic", "cifar10")])
def test_every_dataset_passes_every_check(name):
    if presence(name).state not in ("here", "built in"):
        pytest.skip("real datasets are tested only where FEDCAST_DATA names a folder that holds them")
    # Overlapping sequences are many, and no different.
    changes = {"stride": 40} if "shakespeare" in name else {}
    for check in datasets.CHECKS:
        check(CATALOGUE[name], CATALOGUE[name].options(**changes))


def _own(rng, **changes):
    arrays = {"inputs": rng.random((60, 8, 8)), "labels": np.arange(60) % 4, "groups": np.arange(60) % 6}
    return dataset_from_arrays(**(arrays | changes))


@pytest.mark.parametrize("check", datasets.CHECKS, ids=lambda check: check.__name__)
def test_an_own_file_passes_every_check(check, tmp_path):
    path = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    np.savez(path, inputs=rng.random((60, 8, 8)), labels=np.arange(60) % 4, groups=np.arange(60) % 6)
    check(CATALOGUE["file"], CATALOGUE["file"].options(path=str(path)))


def test_class_counts_without_samples_declare_themselves():
    datasets.declares_itself(CATALOGUE["synthetic"], CATALOGUE["synthetic"].options())


def _entry(**changes):
    def load(*_):
        return replace(_own(np.random.default_rng(0)), **changes)

    return DatasetEntry(load, "broken", "none")


def _text(test_from):
    made = text_dataset("text", [("a", "to be or not to be " * 100)])
    return lambda *_: replace(made, test_inputs=replace(made.test_inputs, starts=test_from(made)))


FINE = _own(np.random.default_rng(0))
FILES = ((SourceFile("mine/a.bin", "0" * 64, "https://example.invalid/a.bin"),),)


def _loads_anyway(*_):
    return FINE


def _plain_error(*_):
    raise FileNotFoundError("a.bin")


def _nameless_error(*_):
    raise DataError("no data")


@pytest.mark.parametrize(
    ("check", "entry", "message"),
    [
        (datasets.declares_itself, DatasetEntry(_loads_anyway, "", "none"), "summary"),
        (datasets.declares_itself, DatasetEntry(_loads_anyway, "x", "", FILES), "terms of use"),
        (datasets.declares_itself, DatasetEntry(_loads_anyway, "x", "y", ((SourceFile("/a", "0" * 64),),)), "under"),
        (datasets.declares_itself, DatasetEntry(_loads_anyway, "x", "y", ((SourceFile("a", "0" * 63),),)), "64 hex"),
        (datasets.has_one_label_for_each_input, _entry(labels=FINE.labels[1:]), "48 inputs, 47 labels"),
        (datasets.has_one_label_for_each_input, _entry(labels=FINE.labels.astype(np.int32)), "expected int64"),
        (datasets.has_one_label_for_each_input, _entry(test_inputs=FINE.test_inputs[:, :, 1:]), "test samples"),
        (datasets.has_one_label_for_each_input, _entry(test_inputs=FINE.test_inputs.astype(float)), "test inputs"),
        (datasets.has_labels_within_its_classes, _entry(labels=FINE.labels + 1), "from 1 to 4; expected 0 to 3"),
        (datasets.has_labels_within_its_classes, _entry(test_labels=FINE.test_labels - 1), "from -1"),
        (datasets.has_labels_within_its_classes, _entry(class_names=("a", "b")), "2 class names"),
        (datasets.has_labels_within_its_classes, _entry(bits_per_sample=0), "bits_per_sample"),
        (datasets.has_finite_inputs_in_range, _entry(inputs=FINE.inputs * np.nan), "not finite"),
        (datasets.has_finite_inputs_in_range, _entry(test_inputs=FINE.test_inputs * np.inf), "test input"),
        (datasets.has_finite_inputs_in_range, _entry(scale=255.0), "expected 0 to 1"),
        (datasets.has_finite_inputs_in_range, _entry(scale=None), "scale is None"),
        (datasets.tests_on_other_samples, _entry(test_inputs=FINE.inputs, test_labels=FINE.labels), "100%"),
        (
            datasets.tests_on_other_samples,
            DatasetEntry(_text(lambda made: made.inputs.starts[-300:] + 40), "broken", "none"),
            "training samples",
        ),
        (datasets.has_valid_owners, _entry(groups=FINE.groups[:-1]), "47 owners for 48"),
        (datasets.has_valid_owners, _entry(groups=FINE.groups - 1), "owner is -1"),
        (datasets.has_valid_owners, _entry(group_names=("a",)), "1 names for 6 owners"),
        (
            datasets.loads_the_same_again,
            DatasetEntry(lambda *_: _own(np.random.default_rng(time.perf_counter_ns())), "broken", "none"),
            "inputs differ",
        ),
        (datasets.names_missing_files, DatasetEntry(_loads_anyway, "x", "y", FILES), "without its files"),
        (datasets.names_missing_files, DatasetEntry(_plain_error, "x", "y", FILES), "gives FileNotFoundError"),
        (datasets.names_missing_files, DatasetEntry(_nameless_error, "x", "y", FILES), "does not name"),
    ],
)
def test_the_kit_finds_a_broken_dataset(check, entry, message):
    with pytest.raises(AssertionError, match=message):
        check(entry, NoOptions())


def test_the_kit_accepts_a_dataset_that_downloads_its_files_and_uses_no_network():
    datasets.names_missing_files(
        DatasetEntry(lambda _, folder: fetch("x", FILES, folder), "x", "y", FILES), NoOptions()
    )


@dataclass(frozen=True)
class _FileOptions:
    table_file: str = option("x.npz", "a file")


def test_the_kit_looks_at_files_that_options_name():
    entry = DatasetEntry(_loads_anyway, "x", "y", (), _FileOptions)
    with pytest.raises(AssertionError, match="without its files"):
        datasets.names_missing_files(entry, _FileOptions())
