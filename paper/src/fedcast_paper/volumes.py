"""Training tasks at several shared volumes: accuracy, what part of a gain is more work, what is revealed, and time.

A head's volume is a tenth of its samples, all of them, what JFVO chooses without a limit, or what fedcast's own plan
chooses. Table 2 and Fig. 4 show every strategy at each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fedcast.scenario import Scenario
from fedcast_paper.job import Job
from fedcast_paper.over_seeds import Mean, differences, late_accuracy, mean_of, pairs_by_seed
from fedcast_paper.trained import NOISY, Failure, Trained, failures, strategy_of, trained_runs
from fedcast_paper.training_setting import (
    CONTROLS,
    DATASETS,
    DIRICHLET,
    NOISE,
    RATIO,
    STRATEGIES,
    TUNED_RATE,
    Changes,
    dirichlet,
    label_skew,
    scenario,
    shared_by,
    task,
    under_rules,
)

ONE_CLASS, ROLES, NOISY_USERS = "80 % one-class users", "roles", "noisy users"
SKEWS: dict[str, Changes] = {
    **{f"Dir {alpha:g}": dirichlet(alpha) for alpha in DIRICHLET},
    ONE_CLASS: label_skew(), ROLES: (), NOISY_USERS: NOISE,
}  # fmt: skip
# The paper's accuracies on MNIST are those of a short training: FedAvg exceeds 97.8 % at Dir 10 within 50 rounds.
MNIST_ROUNDS = 50
TENTH, PLAN = "10 %", "plan"
# The fraction of its samples that every head shares; None: what JFVO, or the plan, chooses.
VOLUMES: dict[str, float | None] = {TENTH: RATIO, "all": 1.0, "JFVO": None, PLAN: None}
# The plan chooses rule, volumes within the preset's limit and local epochs. It needs a fit of the dataset. The learning
# rate is that of the preset `mnist`.
PLAN_RATE = 0.2
_PLANNED: dict[str, Changes] = {
    "mnist": (
        "allocation.method=jfvo", "rounds.form=auto", "rounds.fit=mnist", "training.local_epochs=[1, 2, 3, 5, 8]",
        f"training.learning_rate={PLAN_RATE}",
    )
}  # fmt: skip
_SMOKE_SKEWS = ("Dir 0.1", ONE_CLASS)
# The controls of DACA; the second, without DACA's weights, is trained in one place only. job.controls adds those of all
# rules.
OWN_CONTROLS = ("daca work", "daca epochs")
_BOTH_CONTROLS = (("mnist", "Dir 0.1"),)
# Fractions of the rounds after which gains are given beside those of all rounds.
EARLIER = {"quarter": 0.25, "half": 0.5, "three_quarters": 0.75}
NAMES = {**STRATEGIES, "best": "plan", **CONTROLS}


class Place(NamedTuple):
    """A dataset and how its users differ, one setting of a table."""

    dataset: str
    skew: str  #: a key of `SKEWS`

    def __str__(self) -> str:
        """Return both in words."""
        return f"{DATASETS[self.dataset]}, {self.skew}"


class Cell(NamedTuple):
    """The finished runs of a place at one volume."""

    runs: list[Trained]
    missing: tuple[str, ...] = ()  #: strategies and controls without any run
    failed: tuple[Failure, ...] = ()
    first_rate: bool = False  #: whether the runs have the learning rate of the first ones

    def of(self, rule: str) -> list[Trained]:
        """Return the runs of a strategy or control."""
        return [run for run in self.runs if run.rule == rule]

    @property
    def num_sharing(self) -> int:
        """Return the number of runs other than those of FedAvg, which all volumes have."""
        return sum(run.rule != "none" for run in self.runs)


Cells = dict[tuple[Place, str], Cell]


def strategy_scenarios(job: Job, place: Place, ratio: float = RATIO) -> list[Scenario]:
    """Return runs of every strategy in which every head shares the same fraction."""
    return under_rules(job, _setting(job, place, TUNED_RATE), STRATEGIES, _seeds(job, place), ratio)


def volume_scenarios(job: Job, place: Place, volume: str, rates: Mapping[str, Changes] = TUNED_RATE) -> list[Scenario]:
    """Return runs of every strategy and the work control at a volume; for the plan, of it and of FedAvg at its best."""
    setting, seeds = _setting(job, place, rates), _seeds(job, place)
    if volume == PLAN:
        planned = job.sized(smoke=("training.local_epochs=[1, 2]",), full=_PLANNED.get(place.dataset, ()))
        sharing = [(f"clustering.rule={rule}", *planned) for rule in ("none", "best")]
    else:
        own = OWN_CONTROLS if place in _BOTH_CONTROLS and job.scale == "full" else OWN_CONTROLS[:1]
        controls = [name for name in CONTROLS if name in own or name.split()[1] in job.controls]
        rules = tuple(STRATEGIES) if job.scale == "full" or volume == TENTH else ("none", "daca")
        sharing = [_sharing(rule, VOLUMES[volume]) for rule in (*rules, *controls)]
    return [scenario(job, *setting, *changes, f"seed={seed}") for changes in sharing for seed in seeds]


def _setting(job: Job, place: Place, rates: Mapping[str, Changes]) -> Changes:
    rounds = MNIST_ROUNDS if place.dataset == "mnist" and place.skew.startswith("Dir") else None
    rate = job.sized(smoke=(), full=rates.get(place.dataset, ()))
    return task(job, place.dataset, *SKEWS[place.skew], *rate, rounds=rounds)


def _seeds(job: Job, place: Place) -> tuple[int, ...]:
    return job.seeds_or(smoke=1, full=5 if place.dataset == "mnist" else 3)


def _sharing(rule: str, ratio: float | None) -> Changes:
    """Return the changes by which heads share a fraction, or what JFVO chooses; FedAvg shares nothing."""
    if ratio is not None or rule == "none":
        return shared_by(rule, ratio or RATIO)
    return (*shared_by(rule), "allocation.method=jfvo", "allocation.max_sharing_ratio=1.0")


def volumes_of(job: Job, place: Place) -> list[str]:
    """Return the volumes at which a place is trained; at smoke scale all of them with one skew of each table only."""
    everywhere = [volume for volume in VOLUMES if volume != PLAN or place.dataset in _PLANNED]
    return job.sized(smoke=everywhere if place.skew in _SMOKE_SKEWS else [TENTH], full=everywhere)


def all_scenarios(job: Job, places: Iterable[Place]) -> list[Scenario]:
    """Return the runs of all places at all volumes."""
    return [
        run for place in places for volume in volumes_of(job, place) for run in volume_scenarios(job, place, volume)
    ]


def trained_cells(job: Job, places: Iterable[Place]) -> Cells:
    """Return all places and volumes, each with its runs; missing runs are trained if the job allows."""
    return {(place, volume): _cell(job, place, volume) for place in places for volume in volumes_of(job, place)}


def _cell(job: Job, place: Place, volume: str) -> Cell:
    """Return the runs at the tuned learning rate or, where there are more of them, those at the first one."""
    cell = _at_rates(job, place, volume, TUNED_RATE)
    if volume == PLAN or place.dataset not in TUNED_RATE or job.scale == "smoke":
        return cell
    first = _at_rates(replace(job, only_finished=True), place, volume, {})
    return cell if cell.num_sharing >= first.num_sharing else first._replace(first_rate=True)


def _at_rates(job: Job, place: Place, volume: str, rates: Mapping[str, Changes]) -> Cell:
    scenarios = volume_scenarios(job, place, volume, rates)
    runs = trained_runs(job, scenarios, some=False)
    wanted = dict.fromkeys(strategy_of(scenario) for scenario in scenarios)
    missing = tuple(rule for rule in wanted if all(run.rule != rule for run in runs))
    return Cell(runs, missing, tuple(failures(job, scenarios)))


def with_sharing(cells: Cells) -> Cells:
    """Return the cells that have other runs than FedAvg's."""
    return {key: cell for key, cell in cells.items() if cell.num_sharing}


def cell_rows(cells: Cells, printed: Mapping[Place, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return a row for each strategy in each cell: accuracy, parts of the gain, leakage, time, the paper's accuracy."""
    return [
        _row(place, volume, rule, cell, printed.get(place, {}) if volume != PLAN else {})
        for (place, volume), cell in cells.items()
        for rule in NAMES
        if cell.of(rule)
    ]


def _row(place: Place, volume: str, rule: str, cell: Cell, printed: Mapping[str, float]) -> dict[str, Any]:
    # A control is compared with FedAvg alone: all that it gains is work.
    runs, control, fedavg = cell.of(rule), cell.of(f"{rule} work"), [] if rule == "none" else cell.of("none")
    parts = {
        "gain": (runs, fedavg), "work": (control, fedavg), "skew": (runs, control),
        "beyond_epochs": (runs, cell.of(f"{rule} epochs")),
    }  # fmt: skip
    gains = {name: _mean(differences(*pair, _percent)) for name, pair in parts.items()} | _more_gains(runs, fedavg)
    accuracy = mean_of(map(_percent, runs))
    noisy = mean_of(100 * run.curve(NOISY)[-1] for run in runs) if all(NOISY in run.curves for run in runs) else None
    return {
        "dataset": place.dataset, "partition": place.skew, "volume": volume, "rule": rule, "seeds": len(runs),
        "failed": sum(strategy_of(run.scenario) == rule for run in cell.failed),
        "users": runs[0].scenario.data.num_users, "first_rate": cell.first_rate,
        "rounds": len(runs[0].curve("accuracy")) - 1,
        "accuracy": accuracy.mean, "half_width": accuracy.half_width,
        "late_accuracy": mean_of(100 * late_accuracy(run) for run in runs).mean,
        "noisy_accuracy": noisy and noisy.mean, "noisy_accuracy_half_width": noisy and noisy.half_width,
        "loss": mean_of(run.curve("test_loss")[-1] for run in runs).mean,
        "worst_accuracy": mean_of(100 * run.curve("worst_accuracy")[-1] for run in runs).mean,
        **{key: value for name, mean in gains.items() for key, value in _columns(name, mean).items()},
        "paper": printed.get(rule),
        "paper_gain": printed[rule] - printed["none"] if rule in printed and rule != "none" else None,
        **{name: _fact(runs, name) for name in _LEAKAGE},
        **_columns("gain_per_leakage", _mean(_gains_per_leakage(runs, fedavg))),
        "local_epochs": mean_of(run.local_epochs for run in runs).mean,
        "simulated_s": mean_of(map(_seconds, runs)).mean,
    }  # fmt: skip


def _more_gains(runs: list[Trained], fedavg: list[Trained]) -> dict[str, Mean | None]:
    """Return the points above FedAvg after a part of the rounds, in the last rounds, and in FedAvg's simulated time."""
    pairs = pairs_by_seed(runs, fedavg)
    early = {f"gain_{name}": [_lead(own, other, part) for own, other in pairs] for name, part in EARLIER.items()}
    since = [_lead(*pair, 1.0) - _lead(*pair, EARLIER["quarter"]) for pair in pairs]
    late = [100 * (late_accuracy(own) - late_accuracy(other)) for own, other in pairs]
    equal_time = [100 * (_accuracy_within(own, _seconds(other)) - other.accuracy) for own, other in pairs]
    more = {"gain_since_quarter": since, "late_gain": late, "equal_time_gain": equal_time}
    return {name: _mean(points) for name, points in (early | more).items()}


def _lead(own: Trained, other: Trained, part: float) -> float:
    """Return the points of one run above another after a part of the rounds."""
    first, second = own.curve("accuracy"), other.curve("accuracy")
    number = round(part * (len(second) - 1))
    return 100 * (first[number] - second[number])


def _accuracy_within(run: Trained, seconds: float) -> float:
    """Return the accuracy after the last round that ends within a simulated time of sharing and rounds."""
    accuracy = run.curve("accuracy")
    # The time of whole rounds may be rounded down.
    number = math.floor((seconds - run.facts["sharing_s"]) / run.round_s + 1e-9)
    return accuracy[min(max(number, 0), len(accuracy) - 1)]


_LEAKAGE = ("average_sharing_ratio", "largest_revealed_share", "distinct_samples", "received_samples")


def _gains_per_leakage(runs: list[Trained], fedavg: list[Trained]) -> list[float]:
    """Return the points above FedAvg for each percent of average sharing ratio, by seed; none if nothing is shared."""
    pairs = [(own, other, 100 * own.facts["average_sharing_ratio"]) for own, other in pairs_by_seed(runs, fedavg)]
    return [(_percent(own) - _percent(other)) / revealed for own, other, revealed in pairs if revealed]


def _columns(name: str, mean: Mean | None) -> dict[str, float | None]:
    return {name: mean and mean.mean, f"{name}_half_width": mean and mean.half_width}


def _mean(values: list[float]) -> Mean | None:
    return mean_of(values) if values else None


def _fact(runs: list[Trained], name: str) -> float:
    return mean_of(run.facts[name] for run in runs).mean


def _percent(run: Trained) -> float:
    return 100 * run.accuracy


def _seconds(run: Trained) -> float:
    """Return the simulated time of sharing and all rounds."""
    return run.facts["sharing_s"] + run.scenario.training.rounds * run.round_s
