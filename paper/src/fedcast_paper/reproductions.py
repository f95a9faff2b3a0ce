"""The list of reproductions, and functions to train for, compute, store and draw them.

To add a figure, add a module to `fedcast_paper.figures` and a line to `REPRODUCTIONS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.formatting import did_you_mean, pluralize, setting_text, similar_name
from fedcast.report import save_figure
from fedcast.scenario import Scenario, current_keys, flat_values
from fedcast_paper.figures import (
    beyond_algorithms,
    beyond_drift,
    beyond_measures,
    beyond_rounds,
    fig1a,
    fig1b,
    fig1c,
    fig4,
    fig5,
    fig6,
    fig7a,
    fig7b,
    fig8,
    fig9a,
    fig9b,
    table2,
)
from fedcast_paper.job import Job, Reproduction, Scale
from fedcast_paper.reproduction_result import Result, load_result, result_path, save_result
from fedcast_paper.text_tables import rows_of
from fedcast_paper.trained import finished, has_value, train_missing, unfinished

# Stands for every id on the command line.
ALL = "all"

REPRODUCTIONS: dict[str, Reproduction] = {
    "fig1a": fig1a.REPRODUCTION,
    "fig1b": fig1b.REPRODUCTION,
    "fig1c": fig1c.REPRODUCTION,
    "fig4": fig4.REPRODUCTION,
    "table2": table2.REPRODUCTION,
    "fig5": fig5.REPRODUCTION,
    "fig6": fig6.REPRODUCTION,
    "fig7a": fig7a.REPRODUCTION,
    "fig7b": fig7b.REPRODUCTION,
    "fig8": fig8.REPRODUCTION,
    "fig9a": fig9a.REPRODUCTION,
    "fig9b": fig9b.REPRODUCTION,
    "beyond-rounds": beyond_rounds.REPRODUCTION,
    "beyond-algorithms": beyond_algorithms.REPRODUCTION,
    "beyond-drift": beyond_drift.REPRODUCTION,
    "beyond-measures": beyond_measures.REPRODUCTION,
}


def find_reproduction(name: str) -> Reproduction:
    """Return the reproduction with that id, or raise an error that suggests the closest id.

    Example:
        >>> find_reproduction("fig8").trains
        False
    """
    if name not in REPRODUCTIONS:
        meant = similar_name(name.lower(), [*REPRODUCTIONS, ALL])
        hint = did_you_mean(meant, f"choose from {', '.join(REPRODUCTIONS)}, or {ALL}")
        raise FedcastError(f"invalid ID {name!r}: no such figure or table{hint}")
    return REPRODUCTIONS[name]


def training_scenarios(names: Iterable[str], job: Job) -> list[Scenario]:
    """Return the scenarios of all training runs that these results need, in the order of the results."""
    makers = [find_reproduction(name).scenarios for name in names]
    return [scenario for maker in makers if maker is not None for scenario in maker(job)]


def left_to_train(names: Iterable[str], job: Job) -> list[Scenario]:
    """Return the training runs that these results need and that are not finished, without duplicates."""
    return unfinished(job, training_scenarios(names, job))


def check_selection(names: Sequence[str], job: Job) -> None:
    """Raise an error if a parameter of `Job.only` has one of the values in no training run that these results need."""
    from fedcast.runs import decides, setting

    runs, results = training_scenarios(names, job), ", ".join(names)
    if not runs:
        raise FedcastError(f"--only: no training is needed for {results}; omit it")
    for name, wanted in job.only.items():
        given = [setting(run, key) for run in runs for key in current_keys(name) if decides(run, key)]
        there_are = ", ".join(dict.fromkeys(setting_text(value) for value in given if value is not None))
        if not there_are:
            raise FedcastError(f"--only {name}: no training run of {results} sets it{_hint(name, runs)}")
        for value in wanted:
            if not any(has_value(run, name, [value]) for run in runs):
                shown = setting_text(value)
                raise FedcastError(f"--only {name}={shown}: no training run of {results} has it; there are {there_are}")


# Parameters in which runs of one result may differ, to suggest.
_DIFFERING = (
    "data.dataset", "data.dirichlet.alpha", "data.label_skew.single_class_share", "clustering.rule",
    "allocation.method", "allocation.fixed.ratio", "sharing.kind", "training.learning_rate", "seed",
)  # fmt: skip


def _hint(name: str, runs: Sequence[Scenario]) -> str:
    """Return which parameter may be meant, and in which the runs differ."""
    from fedcast.runs import decides, setting

    values = {key: {setting(run, key) for run in runs if decides(run, key)} for key in _DIFFERING}
    known = [key for key, found in values.items() if len(found) > 1]
    last = next((key for key in known if key.endswith(f".{name}")), None)
    meant = last or similar_name(name, [*known, *flat_values(runs[0])], 0.75)
    otherwise = f"runs differ in {', '.join(known)}" if known else "`fedcast init -` lists all parameters"
    return did_you_mean(meant, otherwise)


def train_for(names: Iterable[str], job: Job) -> None:
    """Train the missing runs of several results with one pool of processes."""
    train_missing(job, training_scenarios(names, job))


def pack_for(names: Sequence[str], job: Job, folder: Path) -> list[Scenario]:
    """Pack the missing runs of several results for another machine and return their scenarios."""
    from fedcast.runs import pack, run_folder

    runs = left_to_train(names, job)
    if not runs:
        trains = any(find_reproduction(name).trains for name in names)
        which = "of --only " if job.only else ""
        reason = f"all training runs {which}are finished" if trains else "no training is needed"
        raise FedcastError(f"nothing to pack: {reason} for {', '.join(names)}; omit --pack to compute the results")
    packed = set(pack(runs, job.store, folder, data_dir=job.data_dir))
    return [run for run in runs if run_folder(job.store, run).name in packed]


def make_result(name: str, job: Job, results: Path, *, drop_seeds: bool = False) -> Result:
    """Compute and store the result of a figure or table.

    Args:
        name: its id.
        job: scale, seeds and folders.
        results: folder of stored results.
        drop_seeds: whether a result at full scale may replace a stored one that has seeds or runs which it lacks.
    """
    result = find_reproduction(name).data(job)
    if not drop_seeds:
        _check_no_seed_is_lost(name, job, results, seeds_of(result))
        _check_no_run_is_lost(name, job, results, result)
    return save_result(result, name, job.scale, results)


def check_seeds(names: Iterable[str], job: Job, results: Path) -> None:
    """Raise an error, before any work, if a stored result at full scale would be replaced by one that lacks its seeds.

    The seeds of a figure without training that is requested without seeds are known only after it is computed;
    `make_result` checks them then.
    """
    for name in names:
        seeds = _requested_seeds(name, job)
        if seeds is not None:
            _check_no_seed_is_lost(name, job, results, seeds)


def seeds_of(result: Result) -> set[int]:
    """Return all seeds that a result was computed from.

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
    """Draw a result as png, svg or pdf; a caption marks figures at smoke scale."""
    reproduction = find_reproduction(name)
    note = _smoke_caption(result, trained=reproduction.trains) if scale == "smoke" else ""
    figure = replace(reproduction.draw(result), note=note, description=reproduction.shows)
    return save_figure(figure, folder / f"{name}.{kind}", dpi=dpi)


def _smoke_caption(result: Result, *, trained: bool) -> str:
    if not trained:
        return "smoke: few users, few seeds"
    data, rounds = result.scenario["data"], result.scenario["training"]["rounds"]
    return f"smoke: {data['dataset']}, {data['num_users']} users, {rounds} rounds"


def _requested_seeds(name: str, job: Job) -> set[int] | None:
    scenarios = find_reproduction(name).scenarios
    if scenarios is None:
        return None if job.seeds is None else set(job.seeds)
    runs = scenarios(job)
    return {run.seed for run in (finished(job, runs) if job.only_finished else runs)}


def _check_no_seed_is_lost(name: str, job: Job, results: Path, seeds: set[int]) -> None:
    stored = _stored_seeds(name, results) if job.scale == "full" else set()
    if lost := stored - seeds:
        condition = " if their runs are finished" if job.only_finished else ""
        raise FedcastError(
            f"{result_path(name, job.scale, results)}: replacing it would lose seeds {_ranges(lost)} of its seeds "
            f"{_ranges(stored)}; use --seeds {_ranges(stored | seeds)} to keep them{condition}, or --drop-seeds"
        )


def _check_no_run_is_lost(name: str, job: Job, results: Path, result: Result) -> None:
    """Raise an error if a stored result at full scale has training runs that a new one lacks."""
    can_lose = job.scale == "full" and find_reproduction(name).trains
    try:
        stored = load_result(name, "full", results) if can_lose else result
    except FedcastError:  # no stored result, or an unreadable one: nothing can be lost
        return
    if lost := list((_runs_of(stored) - _runs_of(result)).elements()):
        shown = "; ".join(", ".join(run) for run in lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        path, number = result_path(name, job.scale, results), pluralize(len(lost), "run")
        raise FedcastError(
            f"{path}: replacing it would lose {number} ({shown}); omit --finished to train what is missing, restore "
            "their files, or use --drop-seeds"
        )


def _runs_of(result: Result) -> Counter[tuple[str, ...]]:
    """Count the runs by what names them: texts, and the seed where a row is of one.

    Without a table of runs, the rows of all tables that name their seed or count their seeds stand for them.
    """
    found: Counter[tuple[str, ...]] = Counter()
    tables = [result.tables["runs"]] if "runs" in result.tables else result.tables.values()
    for row in (row for table in tables for row in rows_of(table)):
        texts = tuple(value for value in row.values() if isinstance(value, str))
        if "seed" in row:
            found[(*texts, f"seed {row['seed']}")] += 1
        elif "seeds" in row:
            found[texts] += row["seeds"]
    return found


def _stored_seeds(name: str, results: Path) -> set[int]:
    try:
        return seeds_of(load_result(name, "full", results))
    except FedcastError:  # no stored result, or an unreadable one: nothing can be lost
        return set()


def _ranges(seeds: Iterable[int]) -> str:
    """Format seeds in the syntax of --seeds.

    Example:
        >>> _ranges([0, 1, 2, 9])
        '0-2,9'
    """
    # Consecutive seeds have the same difference from their index.
    places = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    runs = [[seed for _, seed in run] for _, run in places]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
