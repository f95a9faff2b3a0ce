"""From an id to a stored result that keeps the seeds of the one before, and from a result to a picture."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.report.figures.output import ORANGE, save_figure
from fedcast_paper.job import Job, Scale
from fedcast_paper.result import Result, load_result, result_path, save_result
from fedcast_paper.table import find_reproduction
from fedcast_paper.trained import finished


def make_result(name: str, job: Job, results: Path, *, drop_seeds: bool = False) -> Result:
    """Compute a figure or table and store what comes out.

    Args:
        name: its id.
        job: scale, seeds, and where things are.
        results: folder of stored results.
        drop_seeds: whether a result at full scale may replace one that has seeds which it has not.
    """
    result = find_reproduction(name).data(job)
    if not drop_seeds:
        _refuse_loss(name, job, results, seeds_of(result))
    return save_result(result, name, job.scale, results)


def check_seeds(names: Iterable[str], job: Job, results: Path) -> None:
    """Refuse, before any work is done, what would replace stored results at full scale by some that lack their seeds.

    A result that needs no training and is asked for without seeds says which are its own only once it is computed;
    `make_result` looks then.
    """
    for name in names:
        ahead = _seeds_ahead(name, job)
        if ahead is not None:
            _refuse_loss(name, job, results, ahead)


def seeds_of(result: Result) -> set[int]:
    """The seeds that a result was made from, in any of its parts.

    Example:
        >>> seeds_of(Result({}, {}, {"seeds": "MNIST 0, 2; CIFAR-10 0"})), seeds_of(Result({}, {}, {"seeds": [0, 2]}))
        ({0, 2}, {0, 2})
    """
    named = result.assumptions.get("seeds", result.assumptions.get("seed", []))
    if isinstance(named, str):
        return {int(part.split()[-1]) for part in re.split("[,;]", named)}
    return {named} if isinstance(named, int) else set(named)


def draw_result(
    name: str, result: Result, folder: Path, kind: str = "png", dpi: int = 160, *, scale: Scale = "full"
) -> Path:
    """Draw a result as png, svg or pdf; at smoke scale the picture says that it is one."""
    reproduction = find_reproduction(name)
    figure = reproduction.draw(result)
    if scale == "smoke":
        # Above all that is drawn: a saved picture grows to hold it.
        figure.text(0.01, 1.01, _smoke_caption(result, trained=reproduction.trains), color=ORANGE, fontsize=9)
    return save_figure(figure, folder / f"{name}.{kind}", dpi)


def _smoke_caption(result: Result, *, trained: bool) -> str:
    if not trained:
        return "smoke: few users, few seeds"
    data, rounds = result.scenario["data"], result.scenario["training"]["rounds"]
    return f"smoke: {data['dataset']}, {data['num_users']} users, {rounds} rounds"


def _seeds_ahead(name: str, job: Job) -> set[int] | None:
    scenarios = find_reproduction(name).scenarios
    if scenarios is None:
        return None if job.seeds is None else set(job.seeds)
    runs = scenarios(job)
    return {run.seed for run in (finished(job, runs) if job.only_finished else runs)}


def _refuse_loss(name: str, job: Job, results: Path, seeds: set[int]) -> None:
    stored = _stored_seeds(name, results) if job.scale == "full" else set()
    if lost := stored - seeds:
        condition = " where their runs are finished" if job.only_finished else ""
        raise FedcastError(
            f"{result_path(name, job.scale, results)}: holds seeds {_ranges(stored)}, of which {_ranges(lost)} would "
            f"be lost; --seeds {_ranges(stored | seeds)} keeps them{condition}, --drop-seeds lets them go"
        )


def _stored_seeds(name: str, results: Path) -> set[int]:
    try:
        return seeds_of(load_result(name, "full", results))
    except FedcastError:  # none is there, or none that can be read: nothing is lost
        return set()


def _ranges(seeds: Iterable[int]) -> str:
    """Seeds as --seeds takes them.

    Example:
        >>> _ranges([0, 1, 2, 9])
        '0-2,9'
    """
    # In a run of neighbours, seed minus place stays the same.
    places = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    runs = [[seed for _, seed in run] for _, run in places]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
