"""Training runs of several results at once: trained here, or packed for another machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.scenario import Scenario
from fedcast_paper.job import Job
from fedcast_paper.table import find_reproduction
from fedcast_paper.trained import train_missing, unfinished


def training_scenarios(names: Iterable[str], job: Job) -> list[Scenario]:
    """All training runs that these results are made from, in the order of the results."""
    makers = [find_reproduction(name).scenarios for name in names]
    return [scenario for maker in makers if maker is not None for scenario in maker(job)]


def left_to_train(names: Iterable[str], job: Job) -> list[Scenario]:
    """Those of them that are not finished, each once."""
    return unfinished(job, training_scenarios(names, job))


def train_for(names: Iterable[str], job: Job) -> None:
    """Train what is missing for all of them with one set of processes."""
    train_missing(job, training_scenarios(names, job))


def pack_for(names: Sequence[str], job: Job, folder: Path) -> list[str]:
    """Pack what is missing for all of them; returns the names of the runs. See `fedcast.runs.packing`."""
    from fedcast.runs.packing import pack

    runs = left_to_train(names, job)
    if not runs:
        trains = any(find_reproduction(name).trains for name in names)
        reason = "every training run is finished" if trains else "no training is needed"
        raise FedcastError(f"nothing to pack: {reason} for {', '.join(names)}; leave out --pack to make the result")
    return pack(runs, job.store, folder, data_dir=job.data_dir)
