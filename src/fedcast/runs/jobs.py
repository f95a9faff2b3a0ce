"""One run of a sweep, as every executor (this process, worker processes, Ray) carries it out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.runs.store import run_folder, run_scenario
from fedcast.scenario import Scenario

# The position of a run in the sweep, and its scenario.
Job = tuple[int, Scenario]
# Called with the position of a run, its round and its accuracy.
SweepProgress = Callable[[int, int, float], None]


def run_job(
    job: Job,
    store: Path,
    *,
    data_dir: Path | None = None,
    progress: SweepProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Path | None:
    """Call `run_scenario`; errors start with the name of the run's folder."""
    position, scenario = job
    report = None if progress is None else lambda record: progress(position, record.round, record.accuracy)
    try:
        return run_scenario(scenario, store, data_dir=data_dir, progress=report, should_stop=should_stop)
    except FedcastError as error:
        raise FedcastError(f"{run_folder(store, scenario).name}: {error}") from None
