"""A report as files: the HTML page, tables as CSV and Parquet, figures as PNG, SVG and PDF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fedcast.errors import FedcastError
from fedcast.io import Column, read_table, save_table, write_file
from fedcast.report import run_figures
from fedcast.report.content import Content, gather_facets
from fedcast.report.drawing import Figure
from fedcast.report.figures.maps import cluster_figure
from fedcast.report.figures.training import PARTS, Bands, leakage_figure
from fedcast.report.figures.users import class_change_figure, emd_figure, energy_figure
from fedcast.report.layout import check_width
from fedcast.report.page import page
from fedcast.report.save import FIGURE_FORMATS, save_figure
from fedcast.report.shell import check_report_path
from fedcast.runs import (
    FailedRun,
    RunsLike,
    StoredRun,
    as_runs,
    attendance_table,
    comparison_table,
    gains_table,
    runs_table,
    stack_tables,
    targets_table,
    user_scores,
)

TABLE_FORMATS = ("csv", "parquet", "xlsx")
DEFAULT_FORMATS = ("csv", "png")
_LEDGER = [Column(name, "int", minimum=least) for name, least in (("sample", 0), ("sender", -1), ("receiver", 0))]
_Columns = dict[str, list[Any]]


def write_report(
    runs: RunsLike,
    path: str | Path,
    failed: Sequence[FailedRun] = (),
    tuned: Sequence[str] = (),
    targets: Sequence[float] = (),
    bands: Bands = "interval",
) -> Path:
    """Write finished runs as one self-contained HTML file; the same runs give the same bytes.

    Args:
        runs: or paths of run folders and stores. Runs that differ in more than rule, allocation method, algorithm, kind
            of sharing and seed are grouped by what they differ in; see `fedcast.facets`.
        path: of an .html file.
        failed: runs of the same comparison that failed, which it lists; see `fedcast.runs.load_failures`.
        tuned: keys of settings that were tuned for each strategy; see `fedcast.runs.Study`.
        targets: accuracies to which rounds and time are shown, besides the target of the scenario.
        bands: of learning curves: ``interval``, the 95 % confidence interval of the mean, or ``range``, from the lowest
            to the highest seed.
    """
    path = Path(path)
    check_report_path(path)
    return write_file(path, page(*gather_facets(as_runs(runs), failed, tuned, targets, bands)))


def export_report(
    runs: RunsLike,
    folder: str | Path,
    formats: Sequence[str] = DEFAULT_FORMATS,
    width: str = "screen",
    failed: Sequence[FailedRun] = (),
    targets: Sequence[float] = (),
    bands: Bands = "interval",
) -> list[Path]:
    """Write every table and every figure of a report; return the files.

    Args:
        runs: see `fedcast.write_report`.
        folder: of the files; it is made if missing.
        formats: ``csv``, ``parquet`` and ``xlsx`` for tables, ``png``, ``svg`` and ``pdf`` for figures.
        width: of figures, see `fedcast.report.save_figure`.
        failed: see `fedcast.write_report`.
        targets: likewise.
        bands: likewise.

    Tables hold all runs, with strategy, seed and folder of the run in front. Figures of single runs are those that the
    page shows.
    """
    folder = Path(folder)
    check_export(folder, formats, width)
    found = gather_facets(as_runs(runs), failed, (), targets, bands)
    tables, figures = ([name for name in kinds if name in formats] for kinds in (TABLE_FORMATS, FIGURE_FORMATS))
    # All are computed before the first is written: a damaged run leaves no incomplete export.
    computed = _all_tables(found) if tables else {}
    files = [save_table(table, folder / f"{name}.{kind}") for name, table in computed.items() for kind in tables]
    for place, content in enumerate(found if figures else (), 1):
        ending = f"_facet{place}" if len(found) > 1 else ""
        for name, figure in _figures(content, ending):
            files += [save_figure(figure, folder / f"{name}.{kind}", width) for kind in figures]
    return files


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


def _all_tables(found: Sequence[Content]) -> dict[str, _Columns]:
    """Return the tables of all facets, with columns of what varies in front; a column that a facet lacks is empty."""
    parts = [(content.facet, _tables(content)) for content in found]
    names = dict.fromkeys(name for _, tables in parts for name in tables)
    stacked = {name: stack_tables((facet, tables.get(name, {})) for facet, tables in parts) for name in names}
    return {name: {key: _of_one_type(values) for key, values in columns.items()} for name, columns in stacked.items()}


def _figures(content: Content, ending: str) -> Iterator[tuple[str, Figure]]:
    """Yield the name of the file and the figure, computed when it is needed."""
    for measure, axis in product(run_figures.MEASURES, content.axes):
        yield f"{measure}_by_{axis}{ending}", run_figures.learning_figure(content, measure, axis)
    for column, figure in run_figures.user_figures(content).items():
        yield f"users_{column}{ending}", figure
    yield f"time_split{ending}", run_figures.split_figure(content)
    if curves := run_figures.leakage_curves(content):
        yield f"leakage{ending}", leakage_figure(curves)
    for run in content.inside:
        name, title, facts = run.folder.name, content.name_of(run), run.facts
        yield f"map_{name}", cluster_figure(run_figures.cluster_map_of(content, run), f"Clusters of {title}")
        classes = run_figures.class_change_of(run)
        yield f"classes_{name}", class_change_figure(classes, f"Samples per class and user, {title}")
        emd = run_figures.emd_change_of(run)
        yield f"emd_{name}", emd_figure(emd, facts.emd_before, facts.emd_after, f"EMD of each user, {title}")
        yield f"energy_{name}", energy_figure(*run_figures.user_energy_of(run), f"Energy of each user, {title}")


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return values as text if some are, as 0.3 beside 'unset': files of tables have one type for each column."""
    if not any(isinstance(value, str) for value in values):
        return values
    return [value if value is None or isinstance(value, str) else f"{value:g}" for value in values]


def _tables(content: Content) -> dict[str, _Columns]:
    """Return tables of strategies, runs, lost updates, gains, rounds, users, heads, samples received, and delay."""
    parts = [(_names_of(content, run), _tables_of(run)) for run in content.runs]
    names, seconds = run_figures.time_split(content)
    split = {f"{part}_s": seconds[:, place].tolist() for place, part in enumerate(PARTS)}
    return {
        "comparison": comparison_table(content.rows),
        "runs": runs_table(content.runs, content.failed),
        "targets": targets_table(content.runs, content.to_targets or [content.target], content.failed, content.tuned),
        **({"attendance": attendance_table(content.attendance)} if content.attendance else {}),
        **({"gains": gains_table(content.gains)} if content.gains else {}),
        **{name: stack_tables((named, tables[name]) for named, tables in parts) for name in parts[0][1]},
        "time_split": {"strategy": names, **split, "total_s": seconds.sum(axis=1).tolist()},
    }


def _names_of(content: Content, run: StoredRun) -> dict[str, Any]:
    """Return what names a run in the first columns of its tables."""
    return {"strategy": content.scores[run].strategy.name, "seed": run.scenario.seed, "run": run.folder.name}


def _tables_of(run: StoredRun) -> dict[str, _Columns]:
    """Return the tables of one run."""
    users = run.tables["users"] | user_scores(run)
    # A plan without sharing has the same point at every limit.
    points = dict.fromkeys(run.plan.leakage if run.plan is not None else ())
    ledger: _Columns = {column.name: [] for column in _LEDGER}
    if run.facts.received_samples:
        table = read_table(run.folder / "ledger.csv", _LEDGER)
        ledger = {name: table[name].tolist() for name in ledger}
    return {
        "history": run.history.columns(),
        "users": users | {name: [int(count) for count in users[name]] for name in ("received", "sent")},
        "heads": run.tables["heads"],
        "classes": run.tables["classes"],
        "ledger": ledger,
        "leakage": {
            "average_sharing_ratio": [point.average_sharing_ratio for point in points],
            "delay_s": [point.delay_s for point in points],
        },
    }
