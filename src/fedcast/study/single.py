"""One training run from a scenario: world, clustering, sharing, training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcast.clustering import Clustering, cluster
from fedcast.errors import FedcastError
from fedcast.heterogeneity import skew_of
from fedcast.scenario import Scenario
from fedcast.scenario.sections import MODEL_OF_DATASET, USUAL_MODEL
from fedcast.sharing import Ledger, share_samples
from fedcast.tables import Column, read_table
from fedcast.training import Clock, Federation, History, Outcome, Record, build_model, train
from fedcast.world import World, make_world, task_cost


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A run and all that led to it."""

    world: World
    clustering: Clustering
    ledger: Ledger
    outcome: Outcome

    @property
    def history(self) -> History:
        """The record of the run."""
        return self.outcome.history


def train_scenario(
    scenario: Scenario,
    *,
    data_dir: str | Path | None = None,
    checkpoint: Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainedRun:
    """Make the scenario's world, cluster its users, let heads share, and train.

    Heads share `clustering.sharing_ratio` of their samples; a clustering rule of ``none`` is plain federated learning.
    """
    world = make_world(scenario, data_dir)
    if world.population.dataset is None:
        raise FedcastError(f"data.dataset = {scenario.data.dataset}: synthetic data have no samples to train on")
    clustering = cluster(world.problem())
    shared = share_samples(world.population, clustering, scenario.seed)
    dataset = world.population.dataset
    federation = Federation(
        dataset, shared.assignment, world.population.sizes, skew_of(world.population.counts).distributions
    )
    shape = (dataset.inputs.length,) if not isinstance(dataset.inputs, np.ndarray) else dataset.inputs.shape[1:]
    model = build_model(model_name(scenario), tuple(shape), dataset.num_classes, scenario.seed)
    outcome = train(
        federation,
        model,
        scenario.training,
        seed=scenario.seed,
        clock=clock_of(world, clustering),
        checkpoint=checkpoint,
        progress=progress,
        should_stop=should_stop,
        dropped=dropouts(scenario),
    )
    return TrainedRun(world, clustering, shared.ledger, outcome)


def model_name(scenario: Scenario) -> str:
    """The model that a scenario trains; auto is the usual one of its dataset."""
    name = scenario.training.model
    return MODEL_OF_DATASET.get(scenario.data.dataset, USUAL_MODEL) if name == "auto" else name


def clock_of(world: World, clustering: Clustering) -> Clock:
    """What sharing and a round cost; a round that some user can never finish is refused."""
    cost = task_cost(world, clustering)
    if not np.isfinite(cost.round.round_s):
        from fedcast.cost import feasibility

        report = feasibility(world.fleet, clustering.after.sizes)
        few = "; ".join(report.explain(int(user)) for user in report.infeasible_users[:3])
        raise FedcastError(f"{len(report.infeasible_users)} users cannot take part within their energy budget: {few}")
    return Clock(cost.sharing_s, cost.round.round_s, cost.sharing_j, cost.round_j, cost.sharing_bytes, cost.round_bytes)


def dropouts(scenario: Scenario) -> set[tuple[int, int]]:
    """Pairs (round, user) of the scenario's dropout file."""
    path = scenario.training.dropout_file
    if path is None:
        return set()
    last = scenario.data.num_users - 1
    table = read_table(path, [Column("round", "int", minimum=1), Column("user", "int", minimum=0, maximum=last)])
    return set(zip(table["round"].tolist(), table["user"].tolist(), strict=True))


def save_run(run: TrainedRun, folder: Path) -> list[Path]:
    """Write history (JSON and CSV) and ledger of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        run.history.save(folder / "history.json"),
        run.history.save(folder / "history.csv"),
        run.ledger.save(folder / "ledger.csv"),
    ]
