"""Finished training runs as figures need them: facts known before training, and learning curves.

A run is looked up in the archive (small files beside the results), then in the store of run folders, and trained if it
is in neither. So a result can be recomputed from the archive alone, and an additional seed costs only its own runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.scenario import Scenario, current_keys, load_scenario
from fedcast.sharing import CONTROLS
from fedcast_paper.job import Job
from fedcast_paper.reproduction_result import results_commit

if TYPE_CHECKING:
    from fedcast.runs import FailedRun, StoredRun

CURVES = ("train_loss", "test_loss", "accuracy", "worst_accuracy", "drift")
# Curve of runs whose users have noise.
NOISY = "noisy_accuracy"
# Defaults of fedcast when the first runs were stored, from which the changes in run files are counted.
FORMER_DEFAULTS = (
    "clustering.rule=daca", "rounds.form=paper", "rounds.fit=paper-0.95", "rounds.target_accuracy=0.95",
    "training.local_epochs=1", "training.learning_rate=0.05",
)  # fmt: skip
# What reading a damaged file may raise: no JSON or text, missing names, wrong types, numbers too large, deep nesting.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
# Significant digits; test accuracies are exact.
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run.

    Attributes:
        scenario: scenario of the run.
        facts: known before training: skew, shared samples, delays and so on.
        curves: by name (`CURVES`; also `NOISY` if users have noise), a value for each round starting at 0, or None.
        made_by: versions, machine, and the commit of its training (in older files, if at all, that of its archiving).
    """

    scenario: Scenario
    facts: Mapping[str, float]
    curves: Mapping[str, list[float | None]]
    made_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def local_epochs(self) -> float:
        """The local epochs of a round: the scenario's, or what a plan chose of them."""
        return self.facts.get("local_epochs", self.scenario.training.epoch_choices[0])

    @property
    def rule(self) -> str:
        """The clustering rule; for a control also which, as in ``daca work``."""
        return strategy_of(self.scenario)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.scenario.seed

    @property
    def accuracy(self) -> float:
        """The test accuracy after the last round."""
        return self.curve("accuracy")[-1]

    @property
    def round_s(self) -> float:
        """The simulated time of a round."""
        return sum(self.facts[phase] for phase in ("download_s", "compute_s", "upload_s"))

    def curve(self, name: str) -> list[float]:
        """Return the known values of a curve."""
        return [value for value in self.curves[name] if value is not None]

    def rounds_to(self, accuracy: float) -> int | None:
        """Return the first round that reached an accuracy; None: no round did."""
        met = (number for number, value in enumerate(self.curve("accuracy")) if value >= accuracy)
        return next(met, None)

    def seconds_to(self, accuracy: float) -> float | None:
        """Return the simulated time of sharing and of the rounds until an accuracy is reached."""
        rounds = self.rounds_to(accuracy)
        return None if rounds is None else self.facts["sharing_s"] + rounds * self.round_s


class Failure(NamedTuple):
    """A run that failed."""

    scenario: Scenario
    reason: str


def strategy_of(scenario: Scenario) -> str:
    """Return the clustering rule; for a control also which, as in ``daca work``."""
    rule, kind = scenario.clustering.rule, scenario.sharing.kind
    return " ".join([rule, *(name for name, control in CONTROLS.items() if control == kind)])


def trained_runs(job: Job, scenarios: Sequence[Scenario], *, some: bool = True) -> list[Trained]:
    """Return the finished runs of the scenarios, in order and without duplicates; train missing ones if the job allows.

    Args:
        job: folders, and whether to train.
        scenarios: scenarios of the runs.
        some: whether to raise an error if no run is finished.
    """
    train_missing(job, scenarios)
    found = [_read(job, name, scenario) for name, scenario in _by_name(scenarios).items() if _is_finished(job, name)]
    if some:
        check_some(job, found)
    return found


def check_some(job: Job, runs: Sequence[Trained]) -> None:
    """Raise an error if there is no run to compute a result from."""
    if not runs:
        folders = " or ".join(str(folder) for folder in (job.archive, job.store) if folder is not None)
        raise FedcastError(
            f"no training run of this result is finished in {folders}; omit --finished to train them (a GPU is "
            "recommended)"
        )


def train_missing(job: Job, scenarios: Sequence[Scenario]) -> None:
    """Train the missing runs, unless the job asks for finished runs only."""
    if not job.only_finished and (missing := unfinished(job, scenarios)):
        _train(job, missing)


def unfinished(job: Job, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios to train: those with the values of `Job.only` that are not finished, without duplicates."""
    missing = (scenario for name, scenario in _by_name(scenarios).items() if not _is_finished(job, name))
    return [scenario for scenario in missing if all(has_value(scenario, *item) for item in job.only.items())]


def has_value(scenario: Scenario, name: str, values: Sequence[Any]) -> bool:
    """Return whether a parameter that decides the run of a scenario, by dotted key, has one of the values there."""
    from fedcast.runs import decides, setting

    return all(decides(scenario, key) and setting(scenario, key) in values for key in current_keys(name))


def finished(job: Job, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios whose runs are in the archive or in the store, without duplicates."""
    return [scenario for name, scenario in _by_name(scenarios).items() if _is_finished(job, name)]


def failures(job: Job, scenarios: Iterable[Scenario]) -> list[Failure]:
    """Return the runs of the scenarios that failed when they were last trained, without duplicates."""
    reasons = {name: (scenario, _failure(job, name)) for name, scenario in _by_name(scenarios).items()}
    return [Failure(scenario, reason) for scenario, reason in reasons.values() if reason is not None]


def _failure(job: Job, name: str) -> str | None:
    """Return why a run failed; None: it is finished, or was not trained. What is found in the store is archived."""
    from fedcast.runs import load_failures

    if _is_finished(job, name):
        return None
    kept = archived(job, f"failed/{name}")
    found = load_failures(job.store / name)
    if not found:
        return _archived_reason(kept) if kept is not None and kept.exists() else None
    if kept is not None:
        changes = changes_from_default(found[0].scenario)
        document = {"changes": changes, "reason": found[0].reason, "made_by": {"commit": results_commit()}}
        with atomic_write(kept) as aside:
            aside.write_text(f"{json.dumps(document)}\n", encoding="utf-8")
    return found[0].reason


def _archived_reason(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["reason"])
    except _UNREADABLE as error:
        raise FedcastError(
            f"{path}: invalid file of a failed run ({error}); delete it to train the run again"
        ) from None


def archived(job: Job, name: str) -> Path | None:
    """Return the file of a run in the archive; None: the job has no archive."""
    return None if job.archive is None else job.archive / f"{name}.json"


def save_trained(run: Trained, path: Path) -> None:
    """Write a run as a small JSON file."""
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
    """Read the file of a scenario's run; raise an error if it is damaged or another run's."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        run = Trained(scenario, document["facts"], document["curves"], document["made_by"])
        reason = _other_run(document["changes"], scenario) or _invalid_value(run)
    except _UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        raise FedcastError(
            f"{path}: invalid run file ({reason}); restore it, for example by git, or delete it to train the run again"
        )
    return run


def _other_run(changes: Mapping[str, Any], scenario: Scenario) -> str | None:
    """Return in which parameter stored changes differ from those of a scenario; None: in none.

    Older files have older names of parameters. Some have become several, of which a scenario needs one.
    """
    expected = json.loads(json.dumps(changes_from_default(scenario)))
    stored = {name: value for old, value in changes.items() for name in current_keys(old)}
    for name, value in expected.items():
        if name not in stored or stored[name] != value:
            return f"of another run: {name} is {stored.get(name, 'not set')}, expected {value}"
    for old, value in changes.items():
        if not any(name in expected for name in current_keys(old)):
            return f"of another run: {old} is {value}, expected not to be set"
    return None


def _invalid_value(run: Trained) -> str | None:
    """Return which fact or curve of a run is invalid; None: none is."""
    from fedcast.runs import Facts

    for name in (*(item.name for item in fields(Facts)), *({"local_epochs"} & run.facts.keys())):
        if not _is_number(run.facts[name]) or run.facts[name] < 0:
            return f"facts.{name} is {run.facts[name]!r}, expected a number of 0 or more"
    if not all(isinstance(text, str) for text in run.made_by.values()):
        return f"made_by is {run.made_by!r}, expected names with texts"
    length = run.scenario.training.rounds + 1
    for name in (*CURVES, *([NOISY] if NOISY in run.curves else [])):
        values = run.curves[name]
        if len(values) != length:
            return f"curves.{name} has {len(values)} values, expected {length}"
        if any(value is not None and not _is_number(value) for value in values):
            return f"curves.{name} has a value that is neither a number nor null"
    for name in ("accuracy", "test_loss", "worst_accuracy"):
        if None in run.curves[name]:
            return f"curves.{name} has an unknown value"
    for name in ("accuracy", "worst_accuracy", *([NOISY] if NOISY in run.curves else [])):
        if not all(0 <= accuracy <= 1 for accuracy in run.curve(name)):
            return f"curves.{name} has a value outside of 0 to 1"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def changes_from_default(scenario: Scenario) -> dict[str, Any]:
    """Return the parameters of a scenario that differ from the default and `FORMER_DEFAULTS`, by dotted name.

    Example:
        >>> changes_from_default(load_scenario(overrides=[*FORMER_DEFAULTS, "seed=3", "data.num_users=20"]))
        {'seed': 3, 'data.num_users': 20}
    """
    usual = load_scenario(overrides=FORMER_DEFAULTS)
    return dict(_differences(scenario.model_dump(mode="json"), usual.model_dump(mode="json")))


def _differences(values: Mapping[str, Any], defaults: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _differences(value, defaults.get(name, {}), f"{path}{name}.")
        # A dump holds the option tables that differ from their defaults: what the default scenario lacks, differs.
        elif name not in defaults or value != defaults[name]:
            yield f"{path}{name}", value


def _by_name(scenarios: Iterable[Scenario]) -> dict[str, Scenario]:
    """Return the scenarios by the name of their run in a store."""
    from fedcast.runs import run_folder

    return {run_folder(Path(), scenario).name: scenario for scenario in scenarios}


def _is_finished(job: Job, name: str) -> bool:
    from fedcast.runs import is_done

    kept = archived(job, name)
    return (kept is not None and kept.exists()) or is_done(job.store / name)


def _train(job: Job, scenarios: list[Scenario]) -> None:
    from fedcast import sweep

    rounds = [0] * len(scenarios)
    total = sum(scenario.training.rounds for scenario in scenarios)

    def report(place: int, number: int, _: float) -> None:
        rounds[place] = number
        job.progress(sum(rounds), total)

    def leave_out(_: FailedRun) -> None:
        """Let the results be made of the other runs; `failures` reads the reason from the store."""

    sweep(scenarios, job.store, data_dir=job.data_dir, workers=job.workers, progress=report, on_failure=leave_out)


def _read(job: Job, name: str, scenario: Scenario) -> Trained:
    from fedcast.runs import load_run

    kept = archived(job, name)
    if kept is not None and kept.exists():
        return load_trained(kept, scenario)
    run = _summary(load_run(job.store / name))
    if kept is not None:
        run = replace(run, made_by={"commit": results_commit(), **run.made_by})
        save_trained(run, kept)
        (kept.parent / "failed" / kept.name).unlink(missing_ok=True)
    return run


def _summary(run: StoredRun) -> Trained:
    machine = run.folder / "machine.json"
    away = json.loads(machine.read_text(encoding="utf-8")) if machine.exists() else {}
    known = [*CURVES, NOISY] if run.history.records[-1].noisy_accuracy is not None else CURVES
    curves = {name: [_rounded(value) for value in run.history.column(name)] for name in known}
    facts = {name: _rounded(value) for name, value in asdict(run.facts).items()}
    if run.plan is not None and isinstance(run.scenario.training.local_epochs, tuple):
        facts["local_epochs"] = run.plan.local_epochs
    return Trained(run.scenario, facts, curves, {**run.versions, **away})  # type: ignore[arg-type]


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
