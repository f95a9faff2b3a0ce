"""Tables and figures of a report as files: CSV, Parquet, PNG, SVG, PDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.report import content as contents
from fedcast.report.content import Content, gather
from fedcast.report.drawing import Figure
from fedcast.report.figures.classes import class_change_figure
from fedcast.report.figures.maps import cluster_figure
from fedcast.report.figures.training import curves_figure, delay_figure, leakage_figure
from fedcast.report.figures.users import emd_figure, energy_figure
from fedcast.report.layout import check_width
from fedcast.report.save import FIGURE_FORMATS, save_figure
from fedcast.report.tables import TABLES
from fedcast.runs import StoredRun

TABLE_FORMATS = ("csv", "parquet")
DEFAULT_FORMATS = ("csv", "png")


def export_report(
    runs: Sequence[StoredRun], folder: str | Path, formats: Sequence[str] = DEFAULT_FORMATS, width: str = "screen"
) -> list[Path]:
    """Write every table and every figure of a report; return the files.

    Args:
        runs: see `fedcast.write_report`.
        folder: of the files; it is made if missing.
        formats: ``csv`` and ``parquet`` for tables, ``png``, ``svg`` and ``pdf`` for figures.
        width: of figures, see `fedcast.report.save_figure`.

    Tables hold all runs, with strategy, seed and folder of the run in front. Figures of single runs are those that the
    page shows.
    """
    folder = Path(folder)
    check_export(folder, formats, width)
    content = gather(runs)
    return [*_write_tables(content, folder, formats), *_write_figures(content, folder, formats, width)]


def _write_tables(content: Content, folder: Path, formats: Sequence[str]) -> list[Path]:
    wanted = [name for name in TABLE_FORMATS if name in formats]
    # All are computed before the first is written: a damaged run leaves no incomplete export.
    tables = {name: table_of(content) for name, table_of in TABLES.items()} if wanted else {}
    return [save_table(table, folder / f"{name}.{suffix}") for name, table in tables.items() for suffix in wanted]


def _write_figures(content: Content, folder: Path, formats: Sequence[str], width: str) -> list[Path]:
    wanted = [name for name in FIGURE_FORMATS if name in formats]
    figures = _figures(content) if wanted else ()
    return [save_figure(figure, folder / f"{name}.{suffix}", width) for name, figure in figures for suffix in wanted]


def check_export(folder: Path, formats: Sequence[str], width: str = "screen") -> None:
    """Check formats, width and folder of an export."""
    check_width(width)
    known = (*TABLE_FORMATS, *FIGURE_FORMATS)
    if isinstance(formats, str):
        raise FedcastError(f"formats: expected a list such as ['{formats}'], got {formats!r}")
    for name in formats:
        if name not in known:
            raise FedcastError(f"invalid value {name!r} for --format: expected {', '.join(known)}")
    if folder.exists() and not folder.is_dir():
        raise FedcastError(f"{folder}: is a file, expected a folder for tables and figures")


def _figures(content: Content) -> Iterator[tuple[str, Figure]]:
    """Yield the name of the file and the figure, computed when it is needed."""
    for measure in contents.MEASURES:
        for axis in contents.AXES:
            target = content.target if measure.column == "accuracy" else None
            lines = contents.curves(content, measure, axis)
            figure = curves_figure(lines, measure.title, axis.title, target=target, is_share=measure.is_share)
            yield f"{measure.column}_by_{axis.column}", figure
    yield "time_split", delay_figure(contents.time_split(content))
    if curves := contents.leakage_curves(content):
        yield "leakage", leakage_figure(curves)
    for run in content.inside:
        yield from _figures_of_run(content, run)


def _figures_of_run(content: Content, run: StoredRun) -> Iterator[tuple[str, Figure]]:
    name, title, facts = run.folder.name, content.name_of(run), run.facts
    yield f"map_{name}", cluster_figure(contents.cluster_map_of(run, content.users_on_map), f"Clusters of {title}")
    yield f"classes_{name}", class_change_figure(contents.class_change_of(run), f"Samples per class and user, {title}")
    emd = emd_figure(contents.emd_change_of(run), facts.emd_before, facts.emd_after, f"EMD of each user, {title}")
    yield f"emd_{name}", emd
    yield f"energy_{name}", energy_figure(contents.user_energy_of(run), f"Energy of each user, {title}")
