"""One run of a scenario in memory: plan it, share samples, train."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

from fedcast.clustering import Clustering
from fedcast.cost import model_size
from fedcast.data import Assignment, Dataset, Population, Skew, skew_of
from fedcast.plan import Planned, SharingPlan, World, check_world, control_of, make_world, plan_world
from fedcast.runs.checks import check_model_size, check_samples_of, check_size, dropouts, own_tests
from fedcast.scenario import BEST_KIND, Scenario, ScenarioLike, as_scenario, load_plugins, model_name
from fedcast.sharing import Ledger, Shared, Sharing, find_sharing, share_by_head
from fedcast.training import (
    Clock,
    Federation,
    History,
    Outcome,
    Record,
    TrainingSettings,
    build_model,
    check_model,
    train,
    training_settings,
)
from fedcast.typing import Bools


@dataclass(frozen=True, eq=False)
class PreparedRun(Planned):
    """Everything that is known before the first round: the plan, and `shared`, the data after sharing."""

    shared: Shared

    @property
    def dataset(self) -> Dataset:
        """Return the samples before sharing."""
        dataset = self.world.population.dataset
        assert dataset is not None
        return dataset

    @property
    def own(self) -> Assignment:
        """Return which of them each user holds before sharing."""
        assignment = self.world.population.assignment
        assert assignment is not None
        return assignment

    @property
    def trained(self) -> Bools:
        """Return who trains, bool[K]."""
        return self.plan.trained

    @property
    def sharing(self) -> Sharing:
        """Return the kind of sharing."""
        return kind_of(self.world.scenario)

    @property
    def after(self) -> Skew:
        """Return sizes and distributions after sharing as planned; samples that a user repeats change its size only."""
        if self.sharing.sends:
            return self.clustering.after
        return replace(self.world.skew, sizes=self.shared.assignment.sizes.astype(np.float64))

    @property
    def training(self) -> TrainingSettings:
        """Return the settings of training."""
        settings = training_settings(self.world.scenario.training, self.plan.local_epochs)
        return replace(settings, aggregation=self.sharing.weights) if settings.aggregation == "shared" else settings

    @property
    def clock(self) -> Clock:
        """Return the simulated clock for training."""
        return clock_of(self)


def clock_of(planned: Planned) -> Clock:
    """Return the simulated clock of a plan."""
    plan, cost, trained = planned.plan, planned.cost.round, planned.plan.trained
    asynchronous = planned.world.scenario.training.buffer_size is not None
    user_s = np.zeros(len(trained))
    user_s[trained] = cost.single_s if asynchronous else cost.user_s
    return Clock(
        **{name: getattr(plan, name) for name in ("sharing_s", "sharing_j", "sharing_bytes")},
        round_s=cost.round_s,
        round_j=float(cost.energy_j.sum()),
        round_bytes=cost.uploaded_bytes + cost.broadcast_bytes,
        user_s=tuple(user_s.tolist()),
        user_j=tuple(plan.energy_j.tolist()),
        upload_bytes=cost.uploaded_bytes / int(trained.sum()),
        download_bytes=cost.download_bytes,
    )


@dataclass(frozen=True, eq=False)
class TrainedRun(PreparedRun):
    """A finished run."""

    outcome: Outcome

    @property
    def prepared(self) -> PreparedRun:
        """Return the run itself, which holds everything that it was prepared from."""
        return self

    @property
    def ledger(self) -> Ledger:
        """Return who sent which sample to whom."""
        return self.shared.ledger

    @property
    def history(self) -> History:
        """Return the record of all rounds."""
        return self.outcome.history

    @property
    def model(self) -> nn.Module:
        """Return the trained model."""
        return self.outcome.model


def train_scenario(
    scenario: ScenarioLike,
    *,
    data_dir: str | Path | None = None,
    world: World | None = None,
    model: nn.Module | None = None,
    replace_batch_norm: bool = False,
    checkpoint: str | Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainedRun:
    """Plan a scenario, share samples, and train.

    The clustering rule ``none`` is plain federated learning. The allocation method ``fixed`` shares
    `allocation.fixed.ratio` of every head's samples, whatever it costs.

    Args:
        scenario: all parameters, the path of a scenario file, or the name of a preset.
        data_dir: where dataset files are looked for first.
        world: made from the same scenario; None: make it.
        model: any module whose state is all weights; None: the one that `training.model` names.
        replace_batch_norm: replace the model's batch norm by group norm; otherwise batch norm is an error.
        checkpoint: file to resume from, if it exists, and to write every `checkpoint_every` rounds.
        progress: called after every round.
        should_stop: called after every round; if it returns true, a checkpoint is written and training ends.

    Example:
        >>> from fedcast import load_scenario
        >>> run = train_scenario(load_scenario(base="digits", overrides=["training.rounds=1", "clustering.rule=gain"]))
        >>> len(run.history), len(run.ledger) > 0
        (2, True)
    """
    scenario = as_scenario(scenario)
    if model is None:
        check_model_size(scenario)
    prepared = prepare_run(scenario, data_dir=data_dir, world=world)
    return train_prepared(
        prepared,
        model=model,
        replace_batch_norm=replace_batch_norm,
        checkpoint=checkpoint,
        progress=progress,
        should_stop=should_stop,
    )


def prepare_run(
    scenario: ScenarioLike, *, data_dir: str | Path | None = None, world: World | None = None
) -> PreparedRun:
    """Plan a scenario and share samples; arguments are those of `train_scenario`."""
    scenario = as_scenario(scenario)
    load_plugins(scenario)
    world = make_world(scenario, data_dir) if world is None else check_world(world, scenario)
    check_samples_of(scenario, world.population)
    planned, kind = plan_world(world), kind_of(scenario)
    population = world.population if kind.sends else _only(world.population, planned.plan.trained)
    shared = _with_counts(share(scenario, planned.plan, population, planned.clustering), world)
    if not kind.sends:
        planned = control_of(planned, shared.assignment.sizes)
    trained = planned.plan.trained
    return PreparedRun(**vars(planned), shared=shared if trained.all() else shared.of(trained))


def share(scenario: Scenario, plan: SharingPlan, population: Population, clustering: Clustering) -> Shared:
    """Share samples of a population as a plan says: by the scenario's kind, or by that of each head."""
    if plan.kinds is None:
        options = scenario.sharing.options("sharing")
        return kind_of(scenario).share(population, clustering, scenario.seed, options)
    by_kind = {name: scenario.sharing.options("sharing", name) for name in set(plan.kinds)}
    return share_by_head(population, clustering, scenario.seed, plan.kinds, by_kind)


def _with_counts(shared: Shared, world: World) -> Shared:
    """Return the same with the privacy that users spent on noisy class counts."""
    privacy, epsilon = shared.ledger.privacy, world.scenario.data.counts_epsilon
    if privacy is None or epsilon is None:
        return shared
    answered = np.where(world.population.sizes > 0, epsilon, 0.0)
    return replace(shared, ledger=replace(shared.ledger, privacy=replace(privacy, pure=answered)))


def kind_of(scenario: Scenario) -> Sharing:
    """Return the kind of sharing of a scenario; for best, whose heads send different kinds, that of raw samples."""
    kind = scenario.sharing.kind
    return find_sharing("raw" if kind == BEST_KIND else kind)


def _only(population: Population, users: Bools) -> Population:
    """Return the population without the samples of users outside the mask."""
    assert population.assignment is not None
    counts = np.where(users[:, None], population.counts, 0)
    return replace(population, counts=counts, assignment=population.assignment.only(users))


def first_model(prepared: PreparedRun) -> nn.Module:
    """Return the model that the scenario names, with its weights before the first round."""
    return model_of(prepared.world.scenario, prepared.dataset)


def model_of(scenario: Scenario, dataset: Dataset) -> nn.Module:
    """Return the model that a scenario names for a dataset, with its weights before the first round."""
    name, file = model_name(scenario), scenario.training.model_file
    options = scenario.training.options("model", name) if file is None else None
    return build_model(name, dataset.sample_shape, dataset.num_classes, scenario.seed, file, options)


def train_prepared(
    prepared: PreparedRun,
    *,
    model: nn.Module | None = None,
    replace_batch_norm: bool = False,
    checkpoint: str | Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainedRun:
    """Train a prepared run; arguments are those of `train_scenario`."""
    world, scenario = prepared.world, prepared.world.scenario
    dataset, shared = prepared.dataset, prepared.shared
    distributions = skew_of(world.population.counts).distributions
    tests = own_tests(scenario, world.population)
    federation = Federation(shared.dataset(dataset), shared.assignment, world.population.sizes, distributions, tests)
    checked = check_model(first_model(prepared) if model is None else model, replace_batch_norm=replace_batch_norm)
    weights = sum(weight.numel() for weight in checked.parameters())
    check_size(weights, scenario, model_size(scenario, dataset.spec).weights)
    outcome = train(
        federation,
        checked,
        prepared.training,
        seed=scenario.seed,
        clock=prepared.clock,
        checkpoint=checkpoint,
        progress=progress,
        should_stop=should_stop,
        dropped=dropouts(scenario),
    )
    return TrainedRun(**vars(prepared), outcome=outcome)
