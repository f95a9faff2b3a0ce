"""A report as files: the HTML page, tables as CSV and Parquet, figures as PNG, SVG and PDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import atomic_write, save_table
from fedcast.report import content as contents
from fedcast.report.content import Content, gather
from fedcast.report.drawing import Figure
from fedcast.report.figures.classes import class_change_figure
from fedcast.report.figures.maps import cluster_figure
from fedcast.report.figures.training import delay_figure, leakage_figure
from fedcast.report.figures.users import emd_figure, energy_figure
from fedcast.report.layout import check_width
from fedcast.report.page import page
from fedcast.report.save import FIGURE_FORMATS, save_figure
from fedcast.report.tables import TABLES
from fedcast.runs import StoredRun

TABLE_FORMATS = ("csv", "parquet")
DEFAULT_FORMATS = ("csv", "png")


def write_report(runs: Sequence[StoredRun], path: str | Path) -> Path:
    """Write finished runs as one self-contained HTML file; the same runs give the same bytes.

    Args:
        runs: which may differ only in rule, allocation method, algorithm and seed; see `fedcast.load_runs`.
        path: of an .html file.
    """
    path = Path(path)
    check_report_path(path)
    text = page(gather(runs))
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


def check_report_path(path: Path) -> None:
    """Check that a report can be written to a file, before any work is done for it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FedcastError(f"{path}: a report is an .html file; --export FOLDER writes tables and figures")
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")


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
    tables, figures = ([name for name in kinds if name in formats] for kinds in (TABLE_FORMATS, FIGURE_FORMATS))
    # All are computed before the first is written: a damaged run leaves no incomplete export.
    computed = {name: table_of(content) for name, table_of in TABLES.items()} if tables else {}
    return [
        *(save_table(table, folder / f"{name}.{kind}") for name, table in computed.items() for kind in tables),
        *(
            save_figure(figure, folder / f"{name}.{kind}", width)
            for name, figure in (_figures(content) if figures else ())
            for kind in figures
        ),
    ]


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
    for measure, axis in product(contents.MEASURES, contents.AXES):
        yield f"{measure.column}_by_{axis.column}", contents.learning_figure(content, measure, axis)[1]
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
    yield (
        f"energy_{name}",
        energy_figure(contents.user_energy_of(run), contents.energy_budget_of(run), f"Energy of each user, {title}"),
    )
