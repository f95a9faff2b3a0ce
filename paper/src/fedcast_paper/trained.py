"""Training runs as figures need them: what was known before, and the course of training.

A run is looked for in the archive, small files that are kept beside the results, then in the store of run folders; what
is in neither is trained. So a result is made anew from the archive alone, and a seed that is added costs its own runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.scenario import Scenario
from fedcast_paper.job import Job

if TYPE_CHECKING:
    from fedcast.runs.store import StoredRun

CURVES = ("train_loss", "test_loss", "accuracy", "worst_accuracy", "drift")
# Of runs whose users have noise.
NOISY = "noisy_accuracy"
# Enough to draw and to compare; test accuracies are exact.
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run.

    Attributes:
        scenario: of the run.
        facts: what was known before training, see `fedcast.runs.facts.Facts`.
        curves: by name (`CURVES`, where users have noise also `NOISY`), a value for each round from 0 on; None where
            there is none.
        made_by: versions and machine.
    """

    scenario: Scenario
    facts: Mapping[str, float]
    curves: Mapping[str, list[float | None]]
    made_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def rule(self) -> str:
        """How it was clustered."""
        return self.scenario.clustering.rule

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.scenario.seed

    @property
    def accuracy(self) -> float:
        """On the test set, after the last round."""
        return self.curve("accuracy")[-1]

    def curve(self, name: str) -> list[float]:
        """A quantity that every round has."""
        return [value for value in self.curves[name] if value is not None]

    def rounds_to(self, accuracy: float) -> int | None:
        """First round that met an accuracy; None: none did."""
        met = (number for number, value in enumerate(self.curve("accuracy")) if value >= accuracy)
        return next(met, None)

    def seconds_to(self, accuracy: float) -> float | None:
        """Simulated time of sharing and of the rounds up to that one."""
        rounds = self.rounds_to(accuracy)
        round_s = sum(self.facts[phase] for phase in ("download_s", "compute_s", "upload_s"))
        return None if rounds is None else self.facts["sharing_s"] + rounds * round_s


def trained_runs(job: Job, scenarios: Sequence[Scenario], *, some: bool = True) -> list[Trained]:
    """The finished runs of the scenarios, in order; each once, and those that are missing trained unless asked not to.

    Args:
        job: where runs are, and whether to train.
        scenarios: of the runs.
        some: whether there must be one.
    """
    train_missing(job, scenarios)
    found = [_read(job, name, scenario) for name, scenario in _by_name(scenarios).items() if _is_there(job, name)]
    if some:
        check_some(found)
    return found


def check_some(runs: Sequence[Trained]) -> None:
    """Refuse to make a result of nothing."""
    if not runs:
        raise FedcastError("none of its training runs is finished; leave out --finished to train them, best on a GPU")


def train_missing(job: Job, scenarios: Sequence[Scenario]) -> None:
    """Train what is not there, unless the job asks for finished runs only."""
    if not job.only_finished and (missing := unfinished(job, scenarios)):
        _train(job, missing)


def unfinished(job: Job, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """The scenarios whose runs are neither in the archive nor in the store, each once."""
    return [scenario for name, scenario in _by_name(scenarios).items() if not _is_there(job, name)]


def finished(job: Job, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """The scenarios whose runs are in the archive or in the store, each once."""
    return [scenario for name, scenario in _by_name(scenarios).items() if _is_there(job, name)]


def archived(job: Job, name: str) -> Path | None:
    """Where a run is kept in the archive, if there is one."""
    return None if job.archive is None else job.archive / f"{name}.json"


def save_trained(run: Trained, path: Path) -> None:
    """Write a run as a small file."""
    document = {
        "changes": changes_from_default(run.scenario),
        "facts": dict(run.facts),
        "curves": dict(run.curves),
        "made_by": dict(run.made_by),
    }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    with atomic_write(path) as aside:
        aside.write_text(f"{{{lines}}}\n", encoding="utf-8")


def load_trained(path: Path, scenario: Scenario) -> Trained:
    """Read the small file of a scenario's run."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Trained(scenario, document["facts"], document["curves"], document["made_by"])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise FedcastError(f"{path}: not a run written by fedcast ({error}); delete it, and it is made anew") from None


def changes_from_default(scenario: Scenario) -> dict[str, Any]:
    """What a scenario sets otherwise than the default, by dotted name.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> changes_from_default(load_scenario(overrides=["seed=3", "data.num_users=20"]))
        {'seed': 3, 'data.num_users': 20}
    """
    return dict(_differences(scenario.model_dump(mode="json"), Scenario().model_dump(mode="json")))


def _differences(values: Mapping[str, Any], defaults: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _differences(value, defaults[name], f"{path}{name}.")
        elif value != defaults[name]:
            yield f"{path}{name}", value


def _by_name(scenarios: Iterable[Scenario]) -> dict[str, Scenario]:
    """Each run once, under the name that it has in a store."""
    from fedcast.runs.store import run_folder

    return {run_folder(Path(), scenario).name: scenario for scenario in scenarios}


def _is_there(job: Job, name: str) -> bool:
    from fedcast.runs.store import is_done

    kept = archived(job, name)
    return (kept is not None and kept.exists()) or is_done(job.store / name)


def _train(job: Job, scenarios: list[Scenario]) -> None:
    from fedcast.runs.sweep import sweep

    rounds = [0] * len(scenarios)
    total = sum(scenario.training.rounds for scenario in scenarios)

    def told(place: int, number: int, _: float) -> None:
        rounds[place] = number
        job.progress(sum(rounds), total)

    sweep(scenarios, job.store, data_dir=job.data_dir, workers=job.workers, progress=told)


def _read(job: Job, name: str, scenario: Scenario) -> Trained:
    from fedcast.runs.store import load_run

    kept = archived(job, name)
    if kept is not None and kept.exists():
        return load_trained(kept, scenario)
    run = _summary(load_run(job.store / name))
    if kept is not None:
        save_trained(run, kept)
    return run


def _summary(run: StoredRun) -> Trained:
    machine = run.folder / "machine.json"
    away = json.loads(machine.read_text(encoding="utf-8")) if machine.exists() else {}
    known = [*CURVES, NOISY] if run.history.records[-1].noisy_accuracy is not None else CURVES
    curves = {name: [_rounded(value) for value in run.history.column(name)] for name in known}
    facts = {name: _rounded(value) for name, value in asdict(run.facts).items()}
    return Trained(run.scenario, facts, curves, {**run.versions, **away})  # type: ignore[arg-type]


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
