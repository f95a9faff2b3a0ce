"""All tables and figures of a report as files: CSV, Parquet, PNG, SVG, PDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.report import shown
from fedcast.report.content import Content, gather
from fedcast.report.figures.class_change import draw_class_change
from fedcast.report.figures.cluster_map import draw_cluster_map
from fedcast.report.figures.delay_split import draw_delay_split
from fedcast.report.figures.emd_change import draw_emd_change
from fedcast.report.figures.leakage import draw_leakage
from fedcast.report.figures.learning import draw_curves
from fedcast.report.figures.output import save_figure
from fedcast.report.figures.user_energy import draw_user_energy
from fedcast.report.tables import TABLES
from fedcast.runs.store import StoredRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_FORMATS = ("csv", "parquet")
FIGURE_FORMATS = ("png", "svg", "pdf")
USUAL_FORMATS = ("csv", "png")


def export_report(runs: Sequence[StoredRun], folder: str | Path, formats: Sequence[str] = USUAL_FORMATS) -> list[Path]:
    """Write every table in each format of tables, and every figure in each format of figures; returns the files.

    Tables hold all runs, one row per thing, with the run's strategy, seed and folder in front. Figures of single runs
    are those that the page shows.
    """
    folder = Path(folder)
    check_export(folder, formats)
    content = gather(runs)
    return [*_write_tables(content, folder, formats), *_write_figures(content, folder, formats)]


def _write_tables(content: Content, folder: Path, formats: Sequence[str]) -> list[Path]:
    wanted = [name for name in TABLE_FORMATS if name in formats]
    # All are made before the first is written: a damaged run then leaves nothing half done.
    tables = {name: table_of(content) for name, table_of in TABLES.items()} if wanted else {}
    return [save_table(table, folder / f"{name}.{suffix}") for name, table in tables.items() for suffix in wanted]


def _write_figures(content: Content, folder: Path, formats: Sequence[str]) -> list[Path]:
    wanted = [name for name in FIGURE_FORMATS if name in formats]
    if not wanted:
        return []
    return [save_figure(drawn, folder / f"{name}.{suffix}") for name, drawn in _figures(content) for suffix in wanted]


def check_export(folder: Path, formats: Sequence[str]) -> None:
    """Refuse a format that nothing can be written in, and a place that can hold no files."""
    known = (*TABLE_FORMATS, *FIGURE_FORMATS)
    if isinstance(formats, str):
        raise FedcastError(f"formats: expected a list such as ['{formats}'], got {formats!r}")
    for name in formats:
        if name not in known:
            raise FedcastError(f"--format {name}: unknown; expected {', '.join(known)}")
    if folder.exists() and not folder.is_dir():
        raise FedcastError(f"{folder}: is a file, expected a folder for tables and figures")


def _figures(content: Content) -> Iterator[tuple[str, Figure]]:
    """Every figure with the name of its file, drawn when it is asked for."""
    for measure in shown.MEASURES:
        for axis in shown.AXES:
            target = content.target if measure.column == "accuracy" else None
            lines = shown.curves(content, measure, axis)
            yield (
                f"{measure.column}_by_{axis.column}",
                draw_curves(lines, measure.title, axis.title, measure.title.lower(), target),
            )
    yield "time_split", draw_delay_split(shown.time_split(content))
    if curves := shown.leakage_curves(content):
        yield "leakage", draw_leakage(curves)
    for run in content.inside:
        yield from _figures_of_run(content, run)


def _figures_of_run(content: Content, run: StoredRun) -> Iterator[tuple[str, Figure]]:
    name, title = run.folder.name, content.name_of(run)
    yield f"map_{name}", draw_cluster_map(shown.cluster_map_of(run, content.users_on_map), f"Clusters of {title}")
    yield f"classes_{name}", draw_class_change(shown.class_change_of(run), title)
    yield f"emd_{name}", draw_emd_change(shown.emd_change_of(run), f"Distance from the whole, {title}")
    yield f"energy_{name}", draw_user_energy(shown.user_energy_of(run), f"Energy of each user, {title}")
