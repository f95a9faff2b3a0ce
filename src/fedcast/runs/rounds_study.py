"""Measure rounds: train runs of a scenario's task at many settings, keep them in a file, and fit the rounds to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import cluster
from fedcast.data import Dataset, average_emd, average_js, distribution_shift, load_dataset, populate, skew_of
from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.plan import make_world
from fedcast.rounds import (
    SKEW_FORMS,
    Conditions,
    FitDomain,
    FormName,
    RoundsFit,
    RoundsLaw,
    RoundsModel,
    dataset_digest,
    fit_law,
    fit_rounds,
    local_steps,
    task_values,
)
from fedcast.runs.executors import do_in_processes, one_thread, stop_requested
from fedcast.runs.prepare import kind_of, model_of
from fedcast.runs.rounds_design import LEVELS, Setting, scenario_of
from fedcast.scenario import BEST_KIND, Scenario, load_plugins
from fedcast.training import Federation, check_model, train, training_settings
from fedcast.typing import Floats

VERSION = 1
_FOLDS = 8
_BOOTSTRAP = 100
_DIGITS = 5
# A round ends on average half a round after the target is met.
_ROUND_END = 0.5


@dataclass(frozen=True)
class RoundsRun:
    """One training run of the study: what it was, and its accuracy after every round, that of round 0 first."""

    setting: Setting
    emd: float  #: average EMD after sharing, weighting B
    js: float  #: mean JS divergence after sharing, nats
    shift: float  #: shift of the overall label distribution
    steps: float  #: mean number of local steps in a round
    accuracies: tuple[float, ...]

    def rounds_to(self, target: float) -> tuple[int, bool]:
        """Return the first round that met a target, or the last one, and whether the target was met."""
        met = next((number for number, accuracy in enumerate(self.accuracies) if accuracy >= target), None)
        return (len(self.accuracies) - 1, False) if met is None else (max(met, 1), True)


class RunsFile(NamedTuple):
    """Runs of one task."""

    task: Mapping[str, Any]  #: what they have in common, see `study_task`
    top: float  #: accuracy at which runs end
    runs: tuple[RoundsRun, ...]


def study_task(scenario: Scenario, dataset: Dataset) -> dict[str, Any]:
    """Return what all runs of a study have in common, by name of the parameter."""
    data, level = scenario.data, LEVELS.get(scenario.data.partition)
    tables = {name: dict(data.tables.get(name, {})) for name in (data.partition, data.dataset)}
    tables[data.partition].pop(level.option if level else "", None)
    tables[data.dataset].pop("path", None)  # the digest says which data they are
    task = task_values(scenario, dataset_digest(dataset))
    return json.loads(json.dumps(task | {f"data.{name}": table for name, table in tables.items() if table}))  # type: ignore[no-any-return]


def run_study(
    scenario: Scenario,
    settings: Sequence[Setting],
    top: float,
    *,
    data_dir: Path | None = None,
    workers: int = 1,
    finished: Callable[[Setting, RoundsRun | str], None] | None = None,
) -> list[RoundsRun]:
    """Train runs, each until it meets an accuracy or its rounds are over.

    A run that fails, for example because it diverges, does not end the others.

    Args:
        scenario: data, model and training that the runs have in common.
        settings: what differs, see `fedcast.runs.design`.
        top: accuracy at which a run ends.
        data_dir: where dataset files are looked for first.
        workers: number of processes.
        finished: called after every run with its setting, and the run or why it failed.
    """
    done: list[RoundsRun] = []

    def collect(run: RoundsRun | str | None, setting: Setting) -> None:
        if isinstance(run, RoundsRun):
            done.append(run)
        if finished is not None and run is not None:
            finished(setting, run)

    content = scenario.model_dump_json()
    if workers == 1 or len(settings) <= 1:
        with one_thread():
            for setting in settings:
                collect(_train(content, setting, top, data_dir), setting)
    else:
        do_in_processes(settings, workers, _train, lambda one: (content, one, top, data_dir), collect)
    return done


def _train(content: str, setting: Setting, top: float, data_dir: Path | None) -> RoundsRun | str | None:
    """Train one run; return it, or why it failed, or None if it was interrupted."""
    base = Scenario.model_validate_json(content)
    load_plugins(base)
    scenario, seen = scenario_of(base, setting), [0.0]
    try:
        dataset = load_dataset(scenario.data, data_dir)
        population = populate(dataset, scenario.data, scenario.seed)
        world = make_world(scenario, population=population)
        clustering = cluster(world.problem())
        kind = kind_of(scenario)
        options = None if scenario.sharing.kind == BEST_KIND else scenario.sharing.options("sharing")
        shared = kind.share(population, clustering, scenario.seed, options)
        data, distributions = population.dataset or dataset, skew_of(population.counts).distributions
        outcome = train(
            Federation(shared.dataset(data), shared.assignment, population.sizes, distributions),
            model_of(scenario, data),
            training_settings(scenario.training),
            seed=scenario.seed,
            progress=lambda record: seen.append(record.accuracy),
            should_stop=lambda: seen[-1] >= top or stop_requested(),
        )
    except FedcastError as error:
        return str(error)
    if stop_requested():
        return None
    before, after, sizes = world.skew, clustering.after, shared.assignment.sizes
    steps = local_steps(population.sizes, sizes, setting.local_epochs, scenario.training.batch_size)
    return RoundsRun(
        setting,
        average_emd(before, after),
        average_js(before, after),
        distribution_shift(after),
        steps,
        tuple(round(accuracy, _DIGITS) for accuracy in outcome.history.column("accuracy")),
    )


def check_study(scenario: Scenario, data_dir: Path | None = None) -> Dataset:
    """Return the dataset of a study; raise an error if it has no samples, or the model cannot be trained on them."""
    dataset = load_dataset(scenario.data, data_dir)
    check_model(model_of(scenario, dataset))
    return dataset


def save_runs(content: RunsFile, path: Path) -> None:
    """Write runs atomically, one on each line."""
    head = {"version": VERSION, "task": content.task, "top": content.top}
    lines = ",\n".join(json.dumps(asdict(run)) for run in content.runs)
    write_file(path, f'{json.dumps(head)[:-1]}, "runs": [\n{lines}\n]}}\n')


def read_runs(path: Path) -> RunsFile:
    """Read a file that `save_runs` wrote."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']}, expected {VERSION}")
        runs = (
            RoundsRun(**{**run, "setting": Setting(**run["setting"]), "accuracies": tuple(run["accuracies"])})
            for run in document["runs"]
        )
        return RunsFile(document["task"], float(document["top"]), tuple(runs))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedcastError(
            f"{path}: not a file of runs of this version of `fedcast fit-rounds` ({error}); name another file, or "
            f"delete it"
        ) from None


def check_same_task(found: RunsFile, task: Mapping[str, Any], top: float, path: Path) -> None:
    """Raise an error that names what differs, if runs were made for another task or end below the highest target."""
    names = [name for name in {**task, **found.task} if found.task.get(name) != task.get(name)]
    faults = [f"{name} is {_shown(found.task.get(name))}, here {_shown(task.get(name))}" for name in names]
    if found.top < top:
        faults.append(f"its runs end at an accuracy of {found.top:g}, here the highest target is {top:g}")
    if faults:
        raise FedcastError(f"{path}: made for another task: {'; '.join(faults)}; name another file of runs")


def _shown(value: Any) -> str:
    text = "default" if value is None else str(value)
    return f"{text[:12]}…" if len(text) == 64 else text  # a digest


class HeldOut(NamedTuple):
    """Errors of predicted rounds on runs that were left out of the fit; below one round they count as 0."""

    median: float
    p90: float


class StudyFit(NamedTuple):
    """The fit of a study, and how well it fits."""

    fit: RoundsFit
    met: Mapping[float, int]  #: by target, how many runs met it
    held_out: HeldOut | None  #: at the scenario's target; None: too few runs met it
    left_out: Mapping[FormName, str]  #: forms of skew that could not be fitted, and why


def fit_study(
    runs: Sequence[RoundsRun],
    scenario: Scenario,
    task: Mapping[str, Any],
    ladder: Sequence[float],
    name: str,
) -> StudyFit:
    """Fit the law to all runs for every target of the ladder, and forms of skew to runs at the scenario's own settings.

    Runs that did not meet a target are censored observations of the law. A target that too few runs met gets no law; an
    error if that is the scenario's own.
    """
    target, source = scenario.rounds.target_accuracy, f"{len(runs)} runs of {scenario.data.dataset}"
    at = _conditions(runs)
    met = {one: sum(run.rounds_to(one)[1] for run in runs) for one in sorted(ladder)}
    laws: list[RoundsLaw] = []
    reason = ""
    for one in met:
        try:
            laws.append(fit_law(at, *_rounds(runs, one), target_accuracy=one, bootstrap=_BOOTSTRAP))
        except FedcastError as error:
            reason = f"target {one:g}: {error}"
            break
    if len(laws) < 2 or not laws[0].target_accuracy <= target <= laws[-1].target_accuracy:
        best = max((max(run.accuracies) for run in runs), default=0.0)
        raise FedcastError(
            f"invalid value {target:g} for rounds.target_accuracy: {met.get(target, 0)} of {len(runs)} runs met it "
            f"(best {best:.3f}); lower it, add runs (--count) or raise training.rounds ({reason})"
        )
    models, left_out = _skew_forms(runs, scenario, name, source)
    targets = [law.target_accuracy for law in laws]
    fit = RoundsFit(
        name, models, _columns(runs, targets), scenario.data.dataset, tuple(laws), source, _domain(runs, task)
    )
    return StudyFit(fit, met, _held_out(at, *_rounds(runs, target), target), left_out)


def _conditions(runs: Sequence[RoundsRun]) -> Conditions:
    rows = [(run.emd, run.steps, run.setting.learning_rate, run.shift) for run in runs]
    return Conditions(*np.array(rows, dtype=np.float64).reshape(-1, 4).T)


def _rounds(runs: Sequence[RoundsRun], target: float) -> tuple[Floats, NDArray[np.bool_]]:
    pairs = [run.rounds_to(target) for run in runs]
    return np.array([rounds for rounds, _ in pairs], dtype=np.float64), np.array([met for _, met in pairs], dtype=bool)


def _skew_forms(
    runs: Sequence[RoundsRun], scenario: Scenario, name: str, source: str
) -> tuple[dict[FormName, RoundsModel], dict[FormName, str]]:
    """Fit the forms of skew alone to runs that met the target at the scenario's own epochs and learning rate."""
    training, target = scenario.training, scenario.rounds.target_accuracy
    own = training.local_epochs, training.learning_rate
    kept = [run for run in runs if (run.setting.local_epochs, run.setting.learning_rate) == own]
    kept = [run for run in kept if run.rounds_to(target)[1]]
    models: dict[FormName, RoundsModel] = {}
    left_out: dict[FormName, str] = {}
    for form in SKEW_FORMS:
        try:
            models[form] = fit_rounds(
                [run.emd for run in kept],
                [run.rounds_to(target)[0] for run in kept],
                target_accuracy=target,
                shift=[run.shift for run in kept],
                form=form,
                name=name,
                source=source,
                bootstrap=_BOOTSTRAP,
            )
        except FedcastError as error:
            left_out[form] = str(error)
    return models, left_out


def _held_out(at: Conditions, rounds: Floats, met: NDArray[np.bool_], target: float) -> HeldOut | None:
    """Return the errors of runs that met the target, each predicted by a fit to the other folds."""
    folds = np.arange(len(rounds)) % _FOLDS
    columns = [np.asarray(column) for column in at]
    errors: list[float] = []
    for fold in range(_FOLDS):
        rest, out = folds != fold, (folds == fold) & met
        try:
            law = fit_law(
                Conditions(*(column[rest] for column in columns)), rounds[rest], met[rest], target_accuracy=target,
                bootstrap=0,
            )  # fmt: skip
        except FedcastError:
            continue  # too few are left
        missed = np.abs(law.rounds(Conditions(*(column[out] for column in columns))) + _ROUND_END - rounds[out])
        errors += np.where(missed < 1, 0.0, missed / rounds[out]).tolist()
    return HeldOut(float(np.median(errors)), float(np.quantile(errors, 0.9))) if errors else None


def _domain(runs: Sequence[RoundsRun], task: Mapping[str, Any]) -> FitDomain:
    data_options = {name for name in task if isinstance(task[name], dict) and name.startswith("data.")}
    values: dict[str, tuple[Any, ...]] = {name: (task[name],) for name in task if name not in data_options}
    values["training.learning_rate"] = tuple(sorted({run.setting.learning_rate for run in runs}))
    values["training.local_epochs"] = tuple(sorted({run.setting.local_epochs for run in runs}))
    skew = [run.emd for run in runs]
    return FitDomain(values, (min(skew), max(skew)))


def _columns(runs: Sequence[RoundsRun], targets: Sequence[float]) -> dict[str, list[float]]:
    """Return the runs for the file of the fit: -1 stands for a target that was not met by `last_round`."""
    columns = {name: [float(getattr(run, name)) for run in runs] for name in ("emd", "js", "shift", "steps")}
    for name in ("sharing_ratio", "local_epochs", "learning_rate", "seed"):
        columns[name] = [float(getattr(run.setting, name)) for run in runs]
    for target in targets:
        pairs = [run.rounds_to(target) for run in runs]
        columns[f"rounds_to_{target:g}"] = [float(rounds if met else -1) for rounds, met in pairs]
    return columns | {"last_round": [float(len(run.accuracies) - 1) for run in runs]}
