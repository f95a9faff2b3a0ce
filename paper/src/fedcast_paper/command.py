"""The command `fedcast reproduce`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedcast.errors import FedcastError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedcast.scenario import Scenario
    from fedcast_paper import Job, Result

# The largest seed of a scenario; more than this many seeds are a typing error.
_LARGEST_SEED, _MOST_SEEDS = 2**63 - 1, 1000
_SMOKE = "smoke scale: small worlds, and digits instead of every dataset; verdicts mean nothing, use --scale full"

DEFAULT_RESULTS = Path("results")

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Figures and tables, or all.", hidden=True)]
Scale = Annotated[
    Literal["smoke", "full"], typer.Option(help="Small (default), or as in the paper.", show_default=False)
]
Seeds = Annotated[str | None, typer.Option(metavar="0-4,9", help="Replace the default seeds.")]
DropSeeds = Annotated[bool, typer.Option("--drop-seeds", help="Allow stored results to lose runs.")]
Kind = Annotated[Literal["png", "svg", "pdf"], typer.Option("--format", help="Format of figures.")]
Workers = Annotated[int, typer.Option(metavar="N", min=1, help="Training runs at a time.")]
Finished = Annotated[bool, typer.Option("--finished", help="Use finished runs only, train nothing.")]
Only = Annotated[list[str] | None, typer.Option(metavar="KEY=V,…", help="Train only such runs. Repeatable.")]
Controls = Annotated[
    str | None,
    typer.Option(metavar="work,epochs", help="Controls of every strategy, too."),
]
Pack = Annotated[
    Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Pack training for another machine.")
]
Unpack = Annotated[
    Path | None, typer.Option(metavar="FOLDER", file_okay=False, exists=True, help="Import runs trained there.")
]
Pages = Annotated[Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Write pages on stored results.")]
Out = Annotated[Path, typer.Option(help="Folder for figures.", file_okay=False, show_default=False)]
Results = Annotated[Path, typer.Option(help="Folder of results.", file_okay=False)]
Store = Annotated[Path, typer.Option(help="Folder of training runs.", file_okay=False, show_default=False)]


def reproduce(
    ids: Ids = None,
    scale: Scale = "smoke",
    seeds: Seeds = None,
    drop_seeds: DropSeeds = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw stored results, compute nothing.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List ids and stored results.")] = False,
    workers: Workers = 1,
    finished: Finished = False,
    only: Only = None,
    controls: Controls = None,
    pack: Pack = None,
    unpack: Unpack = None,
    pages: Pages = None,
    kind: Kind = "png",
    out: Out = Path("out/reproduce"),
    results: Results = DEFAULT_RESULTS,
    store: Store = Path("out/runs"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder with dataset files.")] = None,
) -> None:
    """Reproduce figures and tables of the paper, by ID or all of them; see --list."""
    from fedcast.scenario import values_by_key
    from fedcast_paper import Job
    from fedcast_paper.reproductions import check_selection

    console = _console()
    reads_only = listed or redraw or (pages is not None and not ids)
    if reads_only and results != DEFAULT_RESULTS and not results.is_dir():
        raise FedcastError(f"--results {results}: no such folder; expected a folder of results")
    if listed:
        console.print(_table(results))
        return
    if redraw:
        unused = {"--seeds": seeds, "--drop-seeds": drop_seeds, "--finished": finished, "--controls": controls}
        _check_unused("--redraw", {**unused, "--only": only, "--pack": pack})
    if finished and unpack is None:  # the runs that are imported are those of --only
        _check_unused("--finished", {"--only": only})
    if pack is not None:
        _check_unused("--pack", {"--drop-seeds": drop_seeds, "--finished": finished})
    names = _names(ids or [], optional=bool(unpack or pages) and pack is None)
    archive = results / scale / "runs" if scale == "full" else None
    job = Job(
        scale, _seeds(seeds), store, data_dir, workers=workers, archive=archive, only_finished=finished,
        only=values_by_key(only or [], "--only"), controls=_controls(controls),
    )  # fmt: skip
    if only:
        check_selection(names, job)
    if unpack is not None:
        _import_runs(console, unpack, store)
    if pack is not None:
        _pack(console, names, job, pack)
    elif names:
        _begin(console, names, job, results, redraw=redraw, drop_seeds=drop_seeds)
        for name in names:
            _reproduce_one(console, name, job, results, out, kind, redraw=redraw, drop_seeds=drop_seeds)
    if pages is not None:
        _write_pages(console, results, pages)


def _check_unused(option: str, others: dict[str, object]) -> None:
    """Raise an error for options that would be ignored."""
    for other, given in others.items():
        if given:
            raise typer.BadParameter(f"{other} has no effect with {option}; omit one of the two")


def _begin(console: Console, names: list[str], job: Job, results: Path, *, redraw: bool, drop_seeds: bool) -> None:
    """Check seeds, print what will be done, and train in parallel if there are several workers."""
    from fedcast_paper.reproductions import check_seeds

    if not (redraw or drop_seeds):
        check_seeds(names, job, results)
    if job.scale == "smoke":
        console.print(_SMOKE, soft_wrap=True)
    elif not redraw:
        _announce_training(console, names, job)
    if job.workers > 1 and not redraw:
        _train_first(names, job)


def _announce_training(console: Console, names: list[str], job: Job) -> None:
    """Announce training at full scale on a CPU, which takes hours."""
    from fedcast.formatting import pluralize
    from fedcast.training import choose_device
    from fedcast_paper.reproductions import left_to_train

    runs = [] if job.only_finished else left_to_train(names, job)
    if runs and choose_device("auto").type == "cpu":
        rounds = pluralize(sum(run.training.rounds for run in runs), "round")
        console.print(
            f"to train: {pluralize(len(runs), 'run')} ({_counts(runs)}), {rounds} on this CPU, which may take hours or "
            "days; use --pack FOLDER to train elsewhere, --only KEY=V for a part",
            soft_wrap=True,
        )


def _counts(runs: Sequence[Scenario]) -> str:
    """Count runs by dataset and strategy."""
    from fedcast_paper.trained import strategy_of

    counts = Counter((run.data.dataset, strategy_of(run)) for run in runs)
    return ", ".join(f"{dataset} {strategy}: {count}" for (dataset, strategy), count in counts.items())


def _reproduce_one(
    console: Console, name: str, job: Job, results: Path, out: Path, kind: str, *, redraw: bool, drop_seeds: bool
) -> None:
    from fedcast_paper import draw_result, load_result, result_path
    from fedcast_paper.pages import ANSWERS

    result = load_result(name, job.scale, results) if redraw else _with_bar(name, job, results, drop_seeds=drop_seeds)
    picture = draw_result(name, result, out, kind, scale=job.scale)
    stored = result_path(name, job.scale, results)
    console.print(f"{name}: {picture}, {stored}", style="bold", soft_wrap=True)
    mark, style = job.sized(smoke=("(smoke) ", "dim"), full=("", ""))
    for verdict in result.verdicts:
        line = f"  {mark}{ANSWERS[verdict.holds]}: {verdict.claim}; {verdict.evidence}"
        console.print(line, style=style)
    for note in job.sized(smoke=(), full=result.notes):
        console.print(f"  {note}", style="dim")


def _with_bar(name: str, job: Job, results: Path, *, drop_seeds: bool) -> Result:
    from fedcast_paper import make_result

    with _bar(name) as progress:
        return make_result(name, replace(job, progress=progress), results, drop_seeds=drop_seeds)


def _console() -> Console:
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _train_first(names: list[str], job: Job) -> None:
    """Train the runs of all results with one pool of processes."""
    from fedcast_paper.reproductions import train_for

    with _bar("training") as progress:
        train_for(names, replace(job, progress=progress))


def _pack(console: Console, names: list[str], job: Job, folder: Path) -> None:
    from fedcast.formatting import pluralize
    from fedcast_paper.reproductions import pack_for

    runs = pack_for(names, job, folder)
    packed = f"{pluralize(len(runs), 'run')} packed in {folder} ({_counts(runs)})"
    console.print(f"{packed}; on the other machine, with PyTorch, NumPy and this source tree, run", soft_wrap=True)
    console.print(f"  PYTHONPATH=src python -m fedcast.training.packed {folder} OUT", soft_wrap=True)
    console.print(
        "then copy OUT back and repeat this command with --unpack OUT --finished instead of --pack, which trains no "
        "more runs here",
        soft_wrap=True,
    )


def _import_runs(console: Console, folder: Path, store: Path) -> None:
    from fedcast.runs import unpack

    console.print(f"{len(unpack(folder, store))} runs imported from {folder}")


def _write_pages(console: Console, results: Path, docs: Path) -> None:
    from fedcast_paper.pages import stored_results, write_pages

    if not stored_results(results):
        raise FedcastError(f"{results / 'full'}: no stored result; run `fedcast reproduce ID --scale full` first")
    for path in write_pages(results, docs):
        console.print(str(path), soft_wrap=True)


def _names(ids: list[str], *, optional: bool) -> list[str]:
    from fedcast_paper import REPRODUCTIONS, find_reproduction
    from fedcast_paper.reproductions import ALL

    if not ids and not optional:
        raise typer.BadParameter(f"missing ID: expected one or more of {', '.join(REPRODUCTIONS)}, or {ALL}")
    for name in ids:
        if name != ALL:
            find_reproduction(name)
    return list(REPRODUCTIONS if ALL in ids else dict.fromkeys(ids))


def _controls(text: str | None) -> tuple[str, ...]:
    from fedcast.sharing import CONTROLS

    names = tuple(dict.fromkeys(text.split(","))) if text else ()
    if unknown := [name for name in names if name not in CONTROLS]:
        raise typer.BadParameter(f"{unknown[0]!r}: expected {' or '.join(CONTROLS)}", param_hint="'--controls'")
    return names


def _seeds(text: str | None) -> tuple[int, ...] | None:
    """Parse numbers and inclusive ranges: 0-4,9."""
    if text is None:
        return None
    try:
        pairs = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError:
        pairs = []
    ordered = all(len(ends) <= 2 and ends[0] <= ends[-1] <= _LARGEST_SEED for ends in pairs)
    if not ordered or not 0 < sum(ends[-1] - ends[0] + 1 for ends in pairs) <= _MOST_SEEDS:
        raise typer.BadParameter(
            f"{text!r}: expected whole numbers and ranges, for example 0-4,9; at most {_MOST_SEEDS:,} seeds, none "
            f"above {_LARGEST_SEED}",
            param_hint="'--seeds'",
        )
    return tuple(dict.fromkeys(seed for ends in pairs for seed in range(ends[0], ends[-1] + 1)))


def _table(results: Path) -> Table:
    from rich.table import Table

    from fedcast_paper import REPRODUCTIONS, SCALES, result_path

    table = Table("id", "shows", "needs", "stored", box=None, header_style="dim", padding=(0, 1, 0, 0))
    for name, reproduction in REPRODUCTIONS.items():
        needs = "GPU" if reproduction.trains else "CPU"
        stored = [scale for scale in SCALES if result_path(name, scale, results).exists()]
        table.add_row(name, reproduction.shows, needs, ", ".join(stored) or "–")
    return table
