"""Checks of a scenario before it is trained; they need no PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcast.cost import model_size
from fedcast.data import Assignment, Population, assignment_from_owners, make_population, presence
from fedcast.errors import FedcastError
from fedcast.io import Column, read_table
from fedcast.scenario import BEST_KIND, Scenario, load_plugins
from fedcast.sharing import check_samples, find_sharing
from fedcast.training import check_augmentation


def check_training(scenario: Scenario, data_dir: str | Path | None = None) -> None:
    """Raise the error that training a scenario would give before its plan is made: of model, data or dropouts.

    A dataset that is not on this machine and can be downloaded is not loaded.
    """
    check_model_size(scenario)
    dropouts(scenario)
    data = scenario.data
    if presence(data.dataset, data_dir).state == "to download":
        return
    check_samples_of(scenario, None if data.dataset == "synthetic" else make_population(data, scenario.seed, data_dir))


def check_samples_of(scenario: Scenario, population: Population | None) -> None:
    """Raise an error if samples cannot be trained on, augmented, or used by the kind of sharing to generate others."""
    if population is None or population.dataset is None:
        raise FedcastError(f"data.dataset = {scenario.data.dataset}: synthetic data have no samples to train on")
    kind = scenario.sharing.kind
    if kind != BEST_KIND and find_sharing(kind).make is not None:
        check_samples(population.dataset)
    check_augmentation(scenario.training.augmentation, population.dataset.sample_shape)
    own_tests(scenario, population)


def own_tests(scenario: Scenario, population: Population) -> Assignment | None:
    """Return the test samples of the natural owners that each user is; None: users are scored by their labels."""
    if scenario.training.user_test == "labels":
        return None
    dataset, held = population.dataset, population.assignment
    if scenario.data.partition != "natural" or held is None or dataset is None or dataset.test_groups is None:
        raise FedcastError(
            "invalid value 'own' for training.user_test: expected data.partition = natural, and a dataset whose test "
            "samples have owners, such as shakespeare; use labels"
        )
    assert dataset.groups is not None, "the partition reads owners"
    user_of_group = dict(zip(dataset.groups[held.samples].tolist(), held.owners.tolist(), strict=True))
    user_of = np.array([user_of_group.get(group, -1) for group in dataset.test_groups.tolist()], dtype=np.int64)
    tests = np.flatnonzero(user_of >= 0)
    return assignment_from_owners(user_of[tests], tests, population.num_users)


def check_model_size(scenario: Scenario) -> None:
    """Raise an error if `training.model_weights` is not that of the model, as far as it is known before loading data.

    Only training needs them to agree: a plan may be made for a model that does not exist yet.
    """
    load_plugins(scenario)
    size = model_size(scenario)
    if size.counted is not None:
        check_size(size.counted, scenario, size.weights)


def check_size(weights: int, scenario: Scenario, planned: int | None) -> None:
    """Raise an error if delays and bytes were planned for another number of weights."""
    if weights != planned:
        raise FedcastError(
            f"training.model_weights: {scenario.training.model_weights or 'unset'}, and the model has {weights:,} "
            f"weights; set it to {weights}, so that delays and bytes are those of this model"
        )


def dropouts(scenario: Scenario) -> set[tuple[int, int]]:
    """Return the pairs (round, user) of the scenario's dropout file."""
    path = scenario.training.dropout_file
    if path is None:
        return set()
    last = scenario.data.num_users - 1
    table = read_table(path, [Column("round", "int", minimum=1), Column("user", "int", minimum=0, maximum=last)])
    return set(zip(table["round"].tolist(), table["user"].tolist(), strict=True))
