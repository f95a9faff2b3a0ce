"""fedcast reproduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedcast.study.reproduce import Job, Result

ALL = "all"

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Figures and tables, or all.", hidden=True)]
Scale = Annotated[Literal["smoke", "full"], typer.Option(help="A quick try, or the real setting.")]
Seeds = Annotated[str | None, typer.Option(metavar="0-4,9", help="Instead of the figure's own seeds.")]
Kind = Annotated[Literal["png", "svg", "pdf"], typer.Option("--format", help="Of pictures.")]
Workers = Annotated[int, typer.Option(metavar="N", min=1, help="Training runs side by side.")]
Finished = Annotated[bool, typer.Option("--finished", help="Train nothing, take what is there.")]
Pack = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Pack training for another machine.")]
Unpack = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Take in what was trained there.")]
Pages = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write pages on stored results.")]


def reproduce(
    ids: Ids = None,
    scale: Scale = "smoke",
    seeds: Seeds = None,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw stored results, compute nothing.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Say what there is and what is stored.")] = False,
    workers: Workers = 1,
    finished: Finished = False,
    pack: Pack = None,
    unpack: Unpack = None,
    pages: Pages = None,
    kind: Kind = "png",
    out: Annotated[Path, typer.Option(help="Folder for pictures.", show_default=False)] = Path("out/reproduce"),
    results: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    store: Annotated[Path, typer.Option(help="Folder of training runs.", show_default=False)] = Path("out/runs"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder with dataset files.")] = None,
) -> None:
    """Reproduce figures and tables of the paper, by ID or all of them; see --list."""
    from rich.console import Console

    from fedcast.study.reproduce import Job

    console = Console()
    if listed:
        console.print(_table(results))
        return
    if unpack is not None:
        _take_in(console, unpack, store)
    if pages is not None:
        _write_pages(console, results, pages)
    if not ids and (unpack or pages):
        return
    names = _names(ids or [])
    archive = results / scale / "runs" if scale == "full" else None
    job = Job(scale, _seeds(seeds), store, data_dir, workers=workers, archive=archive, only_finished=finished)
    if pack is not None:
        _pack(console, names, job, pack)
        return
    if workers > 1 and not redraw:
        _train_first(names, job)
    for name in names:
        _carry_out(console, name, job, results, out, kind, redraw=redraw)


def _carry_out(console: Console, name: str, job: Job, results: Path, out: Path, kind: str, *, redraw: bool) -> None:
    from fedcast.study.reproduce import draw_result, load_result, result_path

    result = load_result(name, job.scale, results) if redraw else _with_bar(name, job, results)
    picture = draw_result(name, result, out, kind)
    stored = result_path(name, job.scale, results)
    console.print(f"{name}: {picture}, {stored}", style="bold", highlight=False, soft_wrap=True)
    for verdict in result.verdicts:
        console.print(f"  {verdict.holds}: {verdict.claim}; {verdict.evidence}", highlight=False)


def _with_bar(name: str, job: Job, results: Path) -> Result:
    from fedcast.study.reproduce import make_result

    with _bar(name) as progress:
        return make_result(name, replace(job, progress=progress), results)


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _train_first(names: list[str], job: Job) -> None:
    """All training of all results at once, so that processes start once."""
    from fedcast.study.reproduce.batch import train_for

    with _bar("training") as progress:
        train_for(names, replace(job, progress=progress))


def _pack(console: Console, names: list[str], job: Job, folder: Path) -> None:
    from fedcast.study.reproduce.batch import pack_for

    runs = pack_for(names, job, folder)
    console.print(f"{len(runs)} runs packed in {folder}; there, with PyTorch, NumPy and this source tree:")
    console.print(f"  PYTHONPATH=src python -m fedcast.training.packed {folder} OUT", highlight=False, soft_wrap=True)


def _take_in(console: Console, folder: Path, store: Path) -> None:
    from fedcast.study.packing import unpack

    console.print(f"{len(unpack(folder, store))} runs taken in from {folder}")


def _write_pages(console: Console, results: Path, docs: Path) -> None:
    from fedcast.study.reproduce.pages import write_pages

    for path in write_pages(results, docs):
        console.print(str(path), highlight=False, soft_wrap=True)


def _names(ids: list[str]) -> list[str]:
    from fedcast.study.reproduce import REPRODUCTIONS, find_reproduction

    if not ids:
        raise typer.BadParameter(f"say what: one or more of {', '.join(REPRODUCTIONS)}, or all")
    if ALL in ids:
        return list(REPRODUCTIONS)
    for name in ids:
        find_reproduction(name)
    return list(dict.fromkeys(ids))


def _seeds(text: str | None) -> tuple[int, ...] | None:
    """Numbers and ranges with both ends: 0-4,9."""
    if text is None:
        return None
    try:
        pairs = [[int(end) for end in part.split("-")] for part in text.split(",")]
        if any(len(ends) > 2 or ends[0] > ends[-1] for ends in pairs):
            raise ValueError
    except ValueError:
        raise typer.BadParameter(f"--seeds {text}: expected whole numbers and ranges, for example 0-4,9") from None
    return tuple(dict.fromkeys(seed for ends in pairs for seed in range(ends[0], ends[-1] + 1)))


def _table(results: Path) -> Table:
    from rich.table import Table

    from fedcast.study.reproduce import REPRODUCTIONS, SCALES, result_path

    table = Table("id", "shows", "needs", "stored", box=None, header_style="dim", padding=(0, 1, 0, 0))
    for name, reproduction in REPRODUCTIONS.items():
        needs = "GPU" if reproduction.trains else "CPU"
        stored = [scale for scale in SCALES if result_path(name, scale, results).exists()]
        table.add_row(name, reproduction.shows, needs, ", ".join(stored) or "–")
    return table
