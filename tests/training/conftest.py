import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedcast.data import Assignment, dataset_from_arrays
from fedcast.data.shakespeare import text_dataset
from fedcast.scenario import Training
from fedcast.training import Federation, build_model, train


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SIZES = [7, 23, 0, 10, 1, 15]  # a user without data, one with one sample, last batches of every kind


def federation(shape=(1, 8, 8), num_classes=4, seed=0, sizes=SIZES):
    """Images of different size and class mix for each user, some of them received from another."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    labels = rng.integers(0, num_classes, total)
    images = (
        rng.random((total, *shape)).astype(np.float32) * 0.5 + labels.reshape(-1, *[1] * len(shape)) / num_classes / 2
    )
    dataset = dataset_from_arrays(images, labels, images[:20], labels[:20])
    return federation_of(dataset, sizes, rng)


def text_federation(sizes=SIZES):
    """Sequences of a text, shorter than the 80 characters of the datasets, since their steps cost most of the time."""
    rng = np.random.default_rng(0)
    words = " ".join(rng.choice(["to", "be", "or", "not", "that", "is", "the", "question"], 400))
    dataset = text_dataset("t", [("a", words)], stride=3)
    short = {name: replace(getattr(dataset, name), length=20) for name in ("inputs", "test_inputs")}
    return federation_of(replace(dataset, **short), sizes, rng)


def federation_of(dataset, sizes, rng):
    order = rng.permutation(len(dataset))[: sum(sizes)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    counts = np.stack(
        [np.bincount(dataset.labels[order[a:b]], minlength=dataset.num_classes) for a, b in itertools.pairwise(offsets)]
    )
    mixes = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    received = [order[offsets[1] : offsets[1] + 5] if user == 3 else order[:0] for user in range(len(sizes))]
    parts = [
        np.concatenate([order[a:b], extra]) for (a, b), extra in zip(itertools.pairwise(offsets), received, strict=True)
    ]
    users = Assignment(np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])]))
    return Federation(dataset, users, np.array(sizes), mixes)


def settings(**changes):
    base = {
        "batch_size": 4,
        "local_epochs": 2,
        "learning_rate": 0.1,
        "rounds": 3,
        "precision": "float64",
        "device": "cpu",
    }
    return Training(**(base | changes))


def run(world=None, **changes):
    """Train an MLP, on `federation()` unless said otherwise."""
    extra = {
        name: changes.pop(name)
        for name in ("clock", "checkpoint", "progress", "should_stop", "dropped", "seed")
        if name in changes
    }
    return train(world or federation(), build_model("mlp", (1, 8, 8), 4, seed=1), settings(**changes), **extra)
