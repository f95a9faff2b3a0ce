"""The command `fedcast plan`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import arguments
from fedcast.cli.output import check_file, screen, write_text

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.data import Population
    from fedcast.plan import CompareRules, PlanDiff, SharingPlan, World

change_option = partial(typer.Option, rich_help_panel="Changes")
rule_option = partial(typer.Option, rich_help_panel="Rules")

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO.toml | diff A.json B.json]", help="Scenario to plan, or two plans to compare."),
]
Json = Annotated[Path | None, typer.Option(help="Write the plan, or the difference, as JSON; - for standard output.")]
Without = Annotated[
    list[str] | None,
    change_option(metavar="USER", help="Try the plan without a user, and print what changes. Repeatable."),
]
Cut = Annotated[
    list[str] | None,
    change_option(metavar="USER,USER", help="Try it without the link of two users. Repeatable."),
]
Consent = Annotated[
    list[str] | None,
    change_option(metavar="USER=SHARE", help="Try another consent of a user, 0 to 1. Repeatable."),
]
CompareOption = Annotated[
    bool | None,
    rule_option(
        "--compare-rules/--no-compare-rules", help="Show all rules, or do not look whether another rule is faster."
    ),
]


def plan(
    words: Words = None,
    preset: arguments.Preset = None,
    overrides: arguments.Overrides = None,
    data_dir: arguments.DataDir = None,
    counts: arguments.Counts = None,
    links: arguments.Links = None,
    positions: arguments.Positions = None,
    base_stations: arguments.BaseStations = None,
    devices: arguments.DeviceFile = None,
    rule: Annotated[str | None, rule_option(help="Clustering rule; best tries all and keeps the fastest.")] = None,
    compare_rules: CompareOption = None,
    previous: Annotated[Path | None, change_option(help="Start from this plan, and print what changed.")] = None,
    without: Without = None,
    cut: Cut = None,
    consent: Consent = None,
    changes: Annotated[Path | None, change_option(help="Write what changed for each user: .json, .csv, …")] = None,
    json: Json = None,
    table: Annotated[Path | None, typer.Option(help="Write one row per user: .csv, .parquet or .xlsx.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the plan as one HTML page that works offline.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the map of the plan: .png, .svg or .pdf.")] = None,
    width: arguments.PictureWidth = "screen",
    bom: Annotated[bool, typer.Option("--bom", help="Start a .csv with a byte-order mark, for Excel.")] = False,
) -> None:
    """Plan who shares how much with whom and how fast devices compute, and print what it costs."""
    from fedcast.cli.plan_text import print_plan
    from fedcast.cli.remarks import print_assumptions, print_doubts, print_size_note, print_tables
    from fedcast.plan import changes_text, diff_plans, load_plan, make_world
    from fedcast.scenario import named_files

    words = words or []
    tables = {"links": links, "positions": positions, "base_stations": base_stations, "devices": devices}
    files = _Outputs(json, table, changes, report, picture, width, bom)
    if words[:1] == ["diff"]:
        _compare(words[1:], files, [counts, previous, *tables.values()])
        return
    if len(words) > 1:
        raise typer.BadParameter(f"{' '.join(words)}: expected one scenario file, or diff A.json B.json")
    file = Path(words[0]) if words else None
    tried = {"changes.without": without, "changes.cut": cut, "changes.consent": consent}
    overrides = [
        *(overrides or []),
        *([] if rule is None else [f"clustering.rule={rule}"]),
        *(f"{key}={dumps(several, ensure_ascii=False)}" for key, several in tried.items() if several),
    ]
    scenario, population = arguments.read_with_counts(file, preset, overrides, counts, **tables)
    what_if = changes_text(scenario.changes)
    files.check([file, counts, *named_files(scenario)])
    _check_changes(what_if, previous, changes)
    before = load_plan(previous) if previous is not None else None
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    print_size_note(world)
    compared: CompareRules = "quick" if compare_rules is None else "full" if compare_rules else "no"
    before, made = _planned(world, before, compared, data_dir, population)
    difference = None if before is None else diff_plans(before, made)
    # Files first: printing fails if the output is a pipe that was closed.
    files.write(made, world, difference)
    console = screen(json)
    print_plan(console, made, world, with_rules=compare_rules is True)
    if population is not None:
        print_tables(console, world)
    print_assumptions(console, made.assumptions)
    if difference is not None:
        _print_difference(console, difference, what_if)
    files.print(console)


def _check_changes(what_if: str, previous: Path | None, changes: Path | None) -> None:
    """Check that there is one plan to compare with, if any is asked for."""
    if what_if and previous is not None:
        raise typer.BadParameter(f"--previous: cannot be combined with changes to try ({what_if})")
    if changes is not None and not what_if and previous is None:
        raise typer.BadParameter("--changes needs a plan to compare with: --previous, --without, --cut or --consent")


def _planned(
    world: World,
    before: SharingPlan | None,
    compared: CompareRules,
    data_dir: Path | None,
    population: Population | None,
) -> tuple[SharingPlan | None, SharingPlan]:
    """Return the plan to compare with, if any, and the plan; of changes to try, the plan without and with them."""
    from fedcast.plan import changes_text, make_plan, make_world, plan_changes, unchanged

    if not changes_text(world.scenario.changes):
        return before, make_plan(world.scenario, world=world, previous=before, compare_rules=compared)
    usual = make_world(unchanged(world.scenario), data_dir, population)
    without, made = (planned.plan for planned in plan_changes(usual, world, compare_rules=compared))
    return without, made


@dataclass(frozen=True)
class _Outputs:
    """The files that a plan is written to."""

    json: Path | None
    table: Path | None
    changes: Path | None
    report: Path | None
    picture: Path | None
    width: str
    bom: bool

    def check(self, inputs: list[Path | None]) -> None:
        """Check before planning that every file can be written, and is no input."""
        from fedcast.report import check_figure_path, check_report_path

        check_file("--json", self.json, inputs)
        check_file("--table", self.table, inputs, table=True)
        as_table = self.changes is not None and self.changes.suffix != ".json"
        check_file("--changes", self.changes, inputs, table=as_table)
        if self.report is not None:
            check_report_path(self.report)
        if self.picture is not None:
            check_figure_path(self.picture, self.width)

    def write(self, made: SharingPlan, world: World, difference: PlanDiff | None) -> None:
        """Write what is asked for."""
        from fedcast.io import save_table
        from fedcast.plan import clustering_of, plan_table, plan_to_json
        from fedcast.report import plan_figure, save_figure, write_plan_report

        if self.json is not None:
            write_text(self.json, plan_to_json(made))
        if self.table is not None:
            save_table(plan_table(made, world), self.table, bom=self.bom)
        if self.changes is not None and difference is not None:
            _write_difference(difference, self.changes, self.bom)
        if self.report is not None:
            write_plan_report(made, world, self.report)
        if self.picture is not None:
            save_figure(plan_figure(world, clustering_of(world, made)), self.picture, self.width)

    def print(self, console: Console) -> None:
        """Print which files were written."""
        every = (self.json, self.table, self.changes, self.report, self.picture)
        if written := [str(path) for path in every if path is not None and str(path) != "-"]:
            console.print(f"\nwrote {' and '.join(written)}", soft_wrap=True)


def _print_difference(console: Console, difference: PlanDiff, what_if: str) -> None:
    from rich.padding import Padding

    console.print(f"\nwhat changes {what_if}" if what_if else "\nwhat changed", style="bold")
    for line in difference.lines():
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _compare(paths: list[str], files: _Outputs, others: list[Path | None]) -> None:
    """Print and write how two plans differ."""
    from fedcast.io import save_table
    from fedcast.plan import diff_plans, load_plan

    json, table = files.json, files.table
    others = [*others, files.changes, files.report, files.picture]
    if len(paths) != 2 or any(other is not None for other in others):
        raise typer.BadParameter("diff takes two plans, --json and --table: fedcast plan diff A.json B.json")
    plans = [Path(path) for path in paths]
    check_file("--json", json, plans)
    check_file("--table", table, plans, table=True)
    difference = diff_plans(load_plan(plans[0]), load_plan(plans[1]))
    if json is not None:
        write_text(json, dumps(difference.as_dict()) + "\n")
    if table is not None:
        save_table(difference.table(), table, bom=files.bom)
    console = screen(json)
    for line in difference.lines():
        console.print(line)


def _write_difference(difference: PlanDiff, path: Path, bom: bool) -> None:
    """Write old and new values of every user, as JSON with those of the plans."""
    from fedcast.io import save_table

    if path.suffix == ".json":
        write_text(path, dumps(difference.as_dict()) + "\n")
    else:
        save_table(difference.table(), path, bom=bom)
