"""The text of `fedcast run` and `fedcast compare`: measures of strategies, who took part, where gains come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from fedcast.cli.output import plain_table
from fedcast.formatting import number, pluralize, quantity, setting_text

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.runs import AttendanceRow, Gain, Row, StoredRun, Study, StudyResult, Timing

_COLUMNS = 4  # strategies per printed table
# Title, measure and unit of each printed line.
_LINES = (
    ("average EMD before", "emd_before", ""),
    ("average EMD after", "emd_after", ""),
    ("local epochs", "local_epochs", ""),
    ("rounds to {target:g} %", "rounds", ""),
    ("accuracy", "accuracy", "%"),
    ("  mean of users, own labels", "user_accuracy", "%"),
    ("  worst tenth of users", "worst_accuracy", "%"),
    ("fine-tuned, mean of users", "fine_tuned_own_accuracy", "%"),
    ("  worst tenth of users", "fine_tuned_worst_accuracy", "%"),
    ("  mean of users, all labels", "fine_tuned_accuracy", "%"),
    ("delay", "total_s", "s"),
    ("  sharing", "sharing_s", "s"),
    ("  download", "download_s", "s"),
    ("  compute", "compute_s", "s"),
    ("  upload", "upload_s", "s"),
    ("energy", "energy_j", "J"),
    ("sent", "sent_bytes", "B"),
    ("average sharing ratio", "average_sharing_ratio", ""),
)


def print_facets(console: Console, study: Study, result: StudyResult) -> None:
    """Print the comparison of every facet that has runs."""
    from fedcast.runs import attendance, compare, gains

    target, tuned = study.scenario.rounds.target_accuracy, result.tuned
    for facet in (one for one in result.facets if one.runs):
        if facet.name:
            console.print(facet.name, style="bold")
        others = {one: compare(facet.runs, facet.failed, tuned, one) for one in study.other_targets}
        _print_comparison(console, compare(facet.runs, facet.failed, tuned), target, others)
        _print_attendance(console, attendance(facet.runs, facet.failed))
        if study.controls:
            _print_gains(console, gains(facet.runs, tuned), target)


def timing_lines(runs: Sequence[StoredRun]) -> list[str]:
    """Return how long training of a run took here, for each engine, and how many runs needed none."""
    by_engine: dict[str, list[Timing]] = {}
    for run in runs:
        if run.timing is not None:
            by_engine.setdefault(f"{run.timing.engine} on {run.timing.device}", []).append(run.timing)
    lines = []
    for engine, found in by_engine.items():
        took, rate = (median(getattr(one, name) for one in found) for name in ("wall_s", "samples_per_s"))
        speed = f"{engine}, {number(round(rate))} samples/s"
        lines.append(
            f"training of a run took {quantity(took, 's')} ({speed}; median of {pluralize(len(found), 'run')})"
        )
    if same := sum(run.history_from is not None for run in runs):
        lines.append(f"{same} of {pluralize(len(runs), 'run')} not trained: finished runs have the same training")
    return lines


def _print_comparison(
    console: Console, rows: Sequence[Row], target: float, others: Mapping[float, Sequence[Row]]
) -> None:
    """Print measures as rows and strategies as columns; many strategies take several tables.

    `others` has the same strategies compared to further targets.
    """
    for start in range(0, len(rows), _COLUMNS):
        part = rows[start : start + _COLUMNS]
        table = plain_table("", *(row.strategy.name for row in part), header_style="bold")
        lines = _lines(part, target)
        for other, found in others.items():
            there = found[start : start + _COLUMNS]
            for name, title, unit in (("rounds", "rounds", ""), ("total_s", "delay", "s")):
                lines.append((f"{title} to {100 * other:g} %", [row.text(name, unit) for row in there]))
        for title, cells in lines:
            table.add_row(title, *cells)
        console.print(table, "")
    if any(test.is_degenerate for row in rows for test in row.tests.values()):
        console.print("–: no test, since the differences to FedAvg are equal up to rounding in all seeds", style="dim")


def _print_attendance(console: Console, rows: Sequence[AttendanceRow]) -> None:
    """Print who took part, where users were lost or updates are stale: counts over all rounds, means over seeds."""
    if not rows:
        return
    from fedcast.runs import COUNTS, shown_counts

    table = plain_table("updates of all rounds", *(row.strategy.name for row in rows))
    for name in shown_counts(rows):
        found = [row.counts.get(name) for row in rows]
        table.add_row(COUNTS[name], *("" if each is None else number(each.mean) for each in found))
    console.print(table, "")


def _print_gains(console: Console, gains: Sequence[Gain], target: float) -> None:
    """Print one table for each strategy and control: from no sharing by more work and by less skew to the strategy."""
    from fedcast.runs import epochs_notes

    titles = {"rounds": f"rounds to {100 * target:g} %", "total_s": "delay", "accuracy": "accuracy"}
    units = {"rounds": "", "total_s": "s", "accuracy": "%"}
    console.print("where the gain comes from", style="bold")
    for pair in dict.fromkeys((gain.strategy, gain.control) for gain in gains):
        strategy, control = pair
        by_measure = {gain.measure: gain for gain in gains if (gain.strategy, gain.control) == pair}
        table = plain_table(control.name, *titles.values(), header_style="bold")
        found = [(by_measure.get(name), units[name]) for name in titles]
        for title, part in (
            (strategy.without_sharing.name, "without"),
            ("  more work", "work"),
            ("  less skew", "skew"),
            ("  whole gain", "total"),
            (strategy.name, "shared"),
        ):
            table.add_row(
                title, *("–" if gain is None else " ".join(filter(None, gain.text(part, unit))) for gain, unit in found)
            )
        table.add_row("seeds", *("0" if gain is None else str(len(gain.seeds)) for gain, _ in found))
        console.print(table, "")
    said = (
        "±: 95 % confidence interval of the difference, paired by seed; rounds and delay: over the seeds in which all "
        "three reached the target"
    )
    for note in epochs_notes(gains):
        console.print(note, style="dim")
    console.print(said if gains else "no seed has runs of a strategy, its control and no sharing", style="dim")


def _lines(rows: Sequence[Row], target: float) -> list[tuple[str, list[str]]]:
    tuned = dict.fromkeys(key for row in rows for key in row.settings)
    lines = [
        (f"best {key}", [setting_text(row.settings[key]) if key in row.settings else "" for row in rows])
        for key in tuned
    ]
    lines += [
        (title.format(target=100 * target), [row.text(name, unit) for row in rows])
        for title, name, unit in _LINES
        if all(name in row.measures for row in rows)
    ]
    lines.append(("speed-up over FedAvg", [row.speed_up_text() for row in rows]))
    if any(test.difference.count > 1 for row in rows for test in row.tests.values()):
        for name, title in (("accuracy", "accuracy"), ("total_s", "delay")):
            lines.append((f"p-value of {title}, paired", [_p_value(row, name) for row in rows]))
    if any(len(row.seeds) > 1 for row in rows):
        lines.insert(0, ("seeds that reached the target", [f"{row.reached} of {len(row.seeds)}" for row in rows]))
    if any(row.failed for row in rows):
        lines.insert(1, ("failed seeds", [str(row.failed) for row in rows]))
    return lines


def _p_value(row: Row, name: str) -> str:
    test = row.tests.get(name)
    if test is None or test.p_value is None:
        return "–" if test is not None and test.is_degenerate else ""
    return f"{test.p_value:.2g}"
