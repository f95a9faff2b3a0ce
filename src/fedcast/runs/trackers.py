"""Export of finished runs to experiment trackers: TensorBoard event files and MLflow runs.

Both get the same content: every quantity of the history against rounds and against the simulated clock, the scenario as
parameters, what was known before training, and the score. A run is identified by the name of its folder: logged again,
it is replaced or left as it is, never duplicated.
"""

from __future__ import annotations

import hashlib
import logging
import os
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.runs.comparison import score
from fedcast.runs.store import locked
from fedcast.runs.stored_run import StoredRun
from fedcast.scenario import flat_values, to_toml

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from tensorboard.compat.proto.event_pb2 import Event

Kind = Literal["tensorboard", "mlflow"]

# A constant name, so that a run that is logged again replaces its file; TensorBoard's own names would add another.
_EVENTS_FILE = "events.out.tfevents.fedcast"
_EXPERIMENT = "fedcast"
_MODULES: dict[Kind, tuple[str, ...]] = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
_MOST_METRICS, _MOST_PARAMETERS = 1000, 100  # MLflow's limits per request


class CurvePoint(NamedTuple):
    """One value of a curve; a step is a round or a millisecond of the simulated clock, since steps must be whole."""

    name: str
    step: int
    seconds: float
    value: float


def log_run(run: StoredRun, kind: Kind, place: str | Path) -> None:
    """Write a finished run for a tracker; see `log_runs`."""
    log_runs([run], kind, place)


def log_runs(runs: Iterable[StoredRun], kind: Kind, place: str | Path) -> None:
    """Write finished runs for a tracker.

    Args:
        runs: read by `load_run`.
        kind: of tracker; each needs the extra of its name.
        place: a folder. TensorBoard: `tensorboard --logdir FOLDER` shows it. MLflow: a database mlflow.db is written
            to it; the address of a tracking server or database (with ``://``) is allowed too.
    """
    if check_tracker(kind) == "tensorboard":
        _log_to_tensorboard(runs, Path(place))
    else:
        _log_to_mlflow(runs, str(place))


def log_targets(words: Sequence[str], out: Path) -> list[tuple[Kind, str]]:
    """Parse trackers and places such as ``tensorboard`` or ``mlflow=http://server:5000``.

    A tracker without a place gets a folder of its name in `out`. Unknown trackers and missing packages are errors here,
    before any work is done.

    Example:
        >>> log_targets(["tensorboard", "mlflow=sqlite:///runs.db"], Path("out"))
        [('tensorboard', 'out/tensorboard'), ('mlflow', 'sqlite:///runs.db')]
    """
    parts = [word.partition("=") for word in words]
    return [(check_tracker(name), place or str(out / name)) for name, _, place in parts]


def check_tracker(name: str) -> Kind:
    """Return the tracker of that name; raise an error if it is unknown or its packages are not installed."""
    kind = next((kind for kind in _MODULES if kind == name), None)
    if kind is None:
        raise FedcastError(f"invalid value {name!r} for --log: expected {' or '.join(_MODULES)}")
    missing = [module for module in _MODULES[kind] if find_spec(module) is None]
    if missing:
        raise FedcastError(f'--log {name}: needs {", ".join(missing)}; pip install "fedcast[{name}]"')
    return kind


def points(run: StoredRun) -> Iterator[CurvePoint]:
    """Yield every value of the history twice: against rounds, and against milliseconds of the simulated clock."""
    for name, values in run.history.columns().items():
        if name == "round":
            continue
        for record, value in zip(run.history.records, values, strict=True):
            if value is not None:
                yield CurvePoint(f"by_round/{name}", record.round, record.seconds, value)
                yield CurvePoint(f"by_millisecond/{name}", round(1000 * record.seconds), record.seconds, value)


def results(run: StoredRun) -> dict[str, float]:
    """Return the single numbers of a run: what was known before training, and its score."""
    scored = score(run)
    facts = {f"facts/{name}": float(value) for name, value in asdict(run.facts).items()}
    return facts | {f"score/{name}": scored.measure(name) for name in (*scored.names, "reached")}


def parameters(run: StoredRun) -> dict[str, str | float]:
    """Return the scenario as a flat dictionary: ``{"seed": 0, "data.dataset": "digits", …}`` of numbers and text."""

    def plain(value: Any) -> str | float:
        if value is None:
            return "unset"
        return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

    return {key: plain(value) for key, value in flat_values(run.scenario).items()}


def _log_to_tensorboard(runs: Iterable[StoredRun], folder: Path) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    for run in runs:
        with atomic_write(folder / run.folder.name / _EVENTS_FILE) as aside, aside.open("wb") as stream:
            records = RecordWriter(stream)
            for event in _events(run):
                records.write(event.SerializeToString())


def _events(run: StoredRun) -> Iterator[Event]:
    """Yield TensorBoard events; their wall time is the simulated clock, so that the relative axis shows it."""
    from tensorboard.compat.proto.event_pb2 import Event
    from torch.utils.tensorboard.summary import hparams, scalar, text

    singles = results(run)
    yield Event(wall_time=0.0, file_version="brain.Event:2")
    for summary in hparams(parameters(run), singles):
        yield Event(wall_time=0.0, summary=summary)
    versions = "\n".join(f"{package} {version}" for package, version in run.versions.items())
    for name, code in (("scenario", to_toml(run.scenario)), ("versions", versions)):
        yield Event(wall_time=0.0, summary=text(name, textwrap.indent(code, "    ")))
    for name, value in singles.items():
        yield Event(wall_time=0.0, step=0, summary=scalar(name, value))
    for point in points(run):
        yield Event(wall_time=point.seconds, step=point.step, summary=scalar(point.name, point.value))


def _log_to_mlflow(runs: Iterable[StoredRun], place: str) -> None:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    folder = None if "://" in place else Path(place).absolute()
    uri = place if folder is None else f"sqlite:///{folder / 'mlflow.db'}"
    artifacts = None if folder is None else (folder / "artifacts").as_uri()
    try:
        with _quiet("mlflow", "alembic"), nullcontext() if folder is None else locked(folder):
            client = MlflowClient(tracking_uri=uri)
            found = client.get_experiment_by_name(_EXPERIMENT)
            experiment = found.experiment_id if found else client.create_experiment(_EXPERIMENT, artifacts)
            for run in runs:
                _log_one_to_mlflow(client, experiment, run)
    except (MlflowException, SQLAlchemyError) as error:
        raise FedcastError(f"{place}: MLflow says: {str(error).splitlines()[0]}") from None


def _log_one_to_mlflow(client: MlflowClient, experiment: str, run: StoredRun) -> None:
    from mlflow.entities import Metric, Param

    tags = _tags(run)
    for old in client.search_runs([experiment], f"tags.`fedcast.run` = '{run.folder.name}'"):
        if old.info.status == "FINISHED" and old.data.tags.get("fedcast.digest") == tags["fedcast.digest"]:
            return
        client.delete_run(old.info.run_id)
    run_id = client.create_run(experiment, tags=tags, run_name=run.folder.name).info.run_id
    params = [Param(key, str(value)) for key, value in parameters(run).items()]
    metrics = [Metric(name, value, 0, 0) for name, value in results(run).items()]
    metrics += [Metric(point.name, point.value, round(1000 * point.seconds), point.step) for point in points(run)]
    for start in range(0, len(params), _MOST_PARAMETERS):
        client.log_batch(run_id, params=params[start : start + _MOST_PARAMETERS])
    for start in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[start : start + _MOST_METRICS])
    client.set_terminated(run_id)


def _tags(run: StoredRun) -> dict[str, str]:
    """Return the tags that identify a run; the digest tells whether it has changed since it was logged."""
    strategy = score(run).strategy
    digest = hashlib.sha256(repr([sorted(results(run).items()), run.history.records]).encode()).hexdigest()
    versions = {f"version.{package}": version for package, version in run.versions.items()}
    named = {f"fedcast.{name}": value for name, value in asdict(strategy).items()}
    own = {"run": run.folder.name, "folder": str(run.folder.absolute()), "digest": digest, "strategy": strategy.name}
    return versions | named | {f"fedcast.{name}": value for name, value in own.items()}


@contextmanager
def _quiet(*loggers: str) -> Iterator[None]:
    """Suppress log messages and warnings of packages that you can do nothing about."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    for logger in levels:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
