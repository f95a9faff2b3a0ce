"""One run of a scenario from start to end: world, plan, sharing, training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedcast.clustering import Clustering, cluster
from fedcast.cost import feasibility, model_name
from fedcast.data import Assignment, Dataset, assignment_from_owners, skew_of
from fedcast.errors import FedcastError, OutsideFitError
from fedcast.io import Column, read_table
from fedcast.plan import SharingPlan, clustering_of, make_plan
from fedcast.plan.world import TaskCost, World, check_world, make_world, task_cost
from fedcast.scenario import Scenario
from fedcast.scenario.sections import WEIGHTS_OF_MODEL
from fedcast.sharing import Ledger, Shared, share_samples
from fedcast.training import (
    Clock,
    Federation,
    History,
    Outcome,
    Record,
    build_model,
    check_model,
    train,
    training_settings,
)


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """All that is known before the first round.

    Attributes:
        world: what the scenario made.
        plan: who shares how much; None where there is nothing to plan (see `prepare_run`).
        clustering: with the volumes that are shared.
        shared: samples of each user after sharing, and the ledger.
        cost: of sharing and of a round.
    """

    world: World
    plan: SharingPlan | None
    clustering: Clustering
    shared: Shared
    cost: TaskCost

    @property
    def clock(self) -> Clock:
        """The simulated clock that training reads."""
        cost, trained = self.cost, self.trained
        user_s, user_j = np.zeros((2, len(trained)))
        user_s[trained] = cost.round.broadcast_s + cost.round.compute_s + cost.round.span_s
        user_j[trained] = cost.round.energy_j
        return Clock(
            sharing_s=cost.sharing_s,
            round_s=cost.round.round_s,
            sharing_j=cost.sharing_j,
            round_j=cost.round_j,
            sharing_bytes=cost.sharing_bytes,
            round_bytes=cost.round_bytes,
            user_s=tuple(user_s.tolist()),
            user_j=tuple(user_j.tolist()),
            upload_bytes=cost.round.uploaded_bytes / int(trained.sum()),
        )

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Who trains, bool[K]."""
        return _who_trains(self.plan, self.clustering)


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A run and all that led to it."""

    prepared: PreparedRun
    outcome: Outcome

    @property
    def world(self) -> World:
        """What the scenario made."""
        return self.prepared.world

    @property
    def clustering(self) -> Clustering:
        """With the volumes that were shared."""
        return self.prepared.clustering

    @property
    def ledger(self) -> Ledger:
        """Who sent what to whom."""
        return self.prepared.shared.ledger

    @property
    def history(self) -> History:
        """The record of the run."""
        return self.outcome.history

    @property
    def model(self) -> nn.Module:
        """The trained model."""
        return self.outcome.model


def train_scenario(
    scenario: Scenario,
    *,
    data_dir: str | Path | None = None,
    world: World | None = None,
    model: nn.Module | None = None,
    replace_batch_norm: bool = False,
    checkpoint: str | Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainedRun:
    """Plan the scenario, let heads share, and train.

    A clustering rule of ``none`` is plain federated learning; an allocation method of ``fixed`` shares
    `allocation.fixed_ratio` of every head's samples, whatever it costs.

    Args:
        scenario: all parameters.
        data_dir: where dataset files are looked for first.
        world: made of the same scenario, if it does not come from its dataset, or is at hand.
        model: any module whose state is all weights; None: the one that `training.model` names.
        replace_batch_norm: put group norm in the place of the model's batch norm instead of refusing it.
        checkpoint: file to go on from, if it is there, and to write now and then.
        progress: called after every round.
        should_stop: asked after every round; if it says so, a checkpoint is written and training ends.

    Example:
        >>> from fedcast import load_scenario
        >>> run = train_scenario(load_scenario(base="digits", overrides=["training.rounds=1"]))
        >>> len(run.history), len(run.ledger) > 0
        (2, True)
    """
    prepared = prepare_run(scenario, data_dir=data_dir, world=world)
    return train_prepared(
        prepared,
        model=model,
        replace_batch_norm=replace_batch_norm,
        checkpoint=checkpoint,
        progress=progress,
        should_stop=should_stop,
    )


def prepare_run(scenario: Scenario, *, data_dir: str | Path | None = None, world: World | None = None) -> PreparedRun:
    """Everything before training.

    The server's broadcast (rule ``central``) has no volumes to plan, and a fixed ratio needs no fit of rounds: where
    the skew lies outside the fit, that run has no plan, but can be trained.

    Args:
        scenario: all parameters.
        data_dir: where dataset files are looked for first.
        world: made of the same scenario, if it does not come from its dataset, or is at hand.
    """
    world = make_world(scenario, data_dir) if world is None else check_world(world, scenario)
    if world.population.dataset is None:
        raise FedcastError(f"data.dataset = {scenario.data.dataset}: synthetic data have no samples to train on")
    plan = plan_if_needed(world)
    clustering = _fixed_clustering(world) if plan is None else clustering_of(world, plan)
    trained = _who_trains(plan, clustering)
    shared = share_samples(world.population, clustering, scenario.seed)
    if not trained.all():
        shared = replace(shared, assignment=_of_users(shared.assignment, trained))
    cost = task_cost(world, clustering, trained)
    if not np.isfinite(cost.round.round_s):
        raise FedcastError(_who_cannot_take_part(world, clustering))
    return PreparedRun(world, plan, clustering, shared, cost)


def plan_if_needed(world: World) -> SharingPlan | None:
    """The plan of a world; None for the server's broadcast, and for a fixed ratio where the fit does not reach."""
    scenario = world.scenario
    if scenario.clustering.rule == "central":
        return None
    try:
        return make_plan(scenario, world=world)
    except OutsideFitError as error:
        if scenario.allocation.method == "fixed" or scenario.clustering.rule == "none":
            return None
        raise OutsideFitError(f"{error}; or share a fixed ratio: allocation.method = fixed") from None


def train_prepared(
    prepared: PreparedRun,
    *,
    model: nn.Module | None = None,
    replace_batch_norm: bool = False,
    checkpoint: str | Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainedRun:
    """Train what was prepared, the scenario's model or one's own; from a checkpoint, if there is one."""
    world, scenario = prepared.world, prepared.world.scenario
    dataset = world.population.dataset
    assert dataset is not None
    federation = Federation(
        dataset, prepared.shared.assignment, world.population.sizes, skew_of(world.population.counts).distributions
    )
    checked = check_model(
        _named_model(scenario, dataset) if model is None else model, replace_batch_norm=replace_batch_norm
    )
    outcome = train(
        federation,
        _of_known_size(checked, scenario),
        training_settings(scenario.training),
        seed=scenario.seed,
        clock=prepared.clock,
        checkpoint=checkpoint,
        progress=progress,
        should_stop=should_stop,
        dropped=dropouts(scenario),
    )
    return TrainedRun(prepared, outcome)


def _named_model(scenario: Scenario, dataset: Dataset) -> nn.Module:
    file = scenario.training.model_file
    return build_model(model_name(scenario), dataset.sample_shape, dataset.num_classes, scenario.seed, file)


def _of_known_size(model: nn.Module, scenario: Scenario) -> nn.Module:
    """The model, if the scenario knows its size: delays and bytes are those of its weights.

    The size of a model of fedcast's own depends on the shape of the samples, so it may be unknown as well.
    """
    weights = sum(weight.numel() for weight in model.parameters())
    told = scenario.training.model_weights
    if weights != (told or WEIGHTS_OF_MODEL.get(model_name(scenario))):
        raise FedcastError(
            f"training.model_weights: {told or 'unset'}, and the model has {weights:,} weights; "
            f"set it to {weights}, so that delays and bytes are those of this model"
        )
    return model


def dropouts(scenario: Scenario) -> set[tuple[int, int]]:
    """Pairs (round, user) of the scenario's dropout file."""
    path = scenario.training.dropout_file
    if path is None:
        return set()
    last = scenario.data.num_users - 1
    table = read_table(path, [Column("round", "int", minimum=1), Column("user", "int", minimum=0, maximum=last)])
    return set(zip(table["round"].tolist(), table["user"].tolist(), strict=True))


def _who_trains(plan: SharingPlan | None, clustering: Clustering) -> NDArray[np.bool_]:
    """As planned; without a plan all that hold anything after sharing."""
    return clustering.after.sizes > 0 if plan is None else plan.trained


def _fixed_clustering(world: World) -> Clustering:
    """Clusters whose heads share the fixed ratio; the server shares `clustering.sharing_ratio`."""
    scenario = world.scenario
    settings = scenario.clustering
    if settings.rule != "central":
        ratio = min(scenario.allocation.fixed_ratio, scenario.allocation.max_sharing_ratio)
        settings = settings.model_copy(update={"sharing_ratio": ratio})
    return cluster(world.problem(settings))


def _of_users(assignment: Assignment, users: np.ndarray) -> Assignment:
    """The same with nothing for all other users, who so do not train."""
    kept = users[assignment.owners]
    return assignment_from_owners(assignment.owners[kept], assignment.samples[kept], assignment.num_users)


def _who_cannot_take_part(world: World, clustering: Clustering) -> str:
    report = feasibility(world.fleet, clustering.after.sizes)
    few = "; ".join(report.explain(int(user)) for user in report.infeasible_users[:3])
    return f"{len(report.infeasible_users)} users cannot take part within their energy budget: {few}"
