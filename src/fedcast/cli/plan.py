"""The command `fedcast plan`."""

from __future__ import annotations

from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.arguments import (
    BaseStations,
    Counts,
    DataDir,
    DeviceFile,
    Links,
    Overrides,
    PictureWidth,
    Positions,
    Preset,
    read_with_counts,
    table_files,
)  # fmt: skip
from fedcast.cli.output import check_file, screen, write_text

if TYPE_CHECKING:
    from fedcast.plan import CompareRules, PlanDiff

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
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    counts: Counts = None,
    links: Links = None,
    positions: Positions = None,
    base_stations: BaseStations = None,
    devices: DeviceFile = None,
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
    width: PictureWidth = "screen",
    bom: Annotated[bool, typer.Option("--bom", help="Start a .csv with a byte-order mark, for Excel.")] = False,
) -> None:
    """Plan who shares how much with whom and how fast devices compute, and print what it costs."""
    from rich.padding import Padding

    from fedcast.cli.plan_text import print_plan
    from fedcast.cli.remarks import print_assumptions, print_doubts, print_size_note, print_tables
    from fedcast.io import save_table
    from fedcast.plan import (
        changes_text,
        clustering_of,
        diff_plans,
        load_plan,
        make_plan,
        make_world,
        plan_changes,
        plan_table,
        plan_to_json,
        unchanged,
    )
    from fedcast.report import check_figure_path, check_report_path, plan_figure, save_figure, write_plan_report
    from fedcast.scenario import named_files

    words = words or []
    tables = table_files(links, positions, base_stations, devices)
    if words[:1] == ["diff"]:
        _compare(words[1:], json, table, bom, [counts, previous, changes, report, picture, *tables.values()])
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
    scenario, population = read_with_counts(file, preset, overrides, counts, tables)
    inputs = [file, counts, *named_files(scenario)]
    check_file("--json", json, inputs)
    check_file("--table", table, inputs, table=True)
    check_file("--changes", changes, inputs, table=changes is not None and changes.suffix != ".json")
    what_if = changes_text(scenario.changes)
    if what_if and previous is not None:
        raise typer.BadParameter(f"--previous: cannot be combined with changes to try ({what_if})")
    if changes is not None and not what_if and previous is None:
        raise typer.BadParameter("--changes needs a plan to compare with: --previous, --without, --cut or --consent")
    if report is not None:
        check_report_path(report)
    if picture is not None:
        check_figure_path(picture, width)
    before = load_plan(previous) if previous is not None else None
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    print_size_note(world)
    compared: CompareRules = "quick" if compare_rules is None else "full" if compare_rules else "no"
    if what_if:
        usual = make_world(unchanged(world.scenario), data_dir, population)
        before, made = (planned.plan for planned in plan_changes(usual, world, compare_rules=compared))
    else:
        made = make_plan(world.scenario, world=world, previous=before, compare_rules=compared)
    difference = None if before is None else diff_plans(before, made)
    # Files first: printing fails if the output is a pipe that was closed.
    if json is not None:
        write_text(json, plan_to_json(made))
    if table is not None:
        save_table(plan_table(made, world), table, bom=bom)
    if changes is not None and difference is not None:
        _write_difference(difference, changes, bom)
    if report is not None:
        write_plan_report(made, world, report)
    if picture is not None:
        save_figure(plan_figure(world, clustering_of(world, made)), picture, width)
    console = screen(json)
    print_plan(console, made, world, with_rules=compare_rules is True)
    if population is not None:
        print_tables(console, world)
    print_assumptions(console, made.assumptions)
    if difference is not None:
        console.print(f"\nwhat changes {what_if}" if what_if else "\nwhat changed", style="bold")
        for line in difference.lines():
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
    if written := [
        str(path) for path in (json, table, changes, report, picture) if path is not None and str(path) != "-"
    ]:
        console.print(f"\nwrote {' and '.join(written)}", soft_wrap=True)


def _compare(paths: list[str], json: Path | None, table: Path | None, bom: bool, others: list[Path | None]) -> None:
    from fedcast.io import save_table
    from fedcast.plan import diff_plans, load_plan

    if len(paths) != 2 or any(other is not None for other in others):
        raise typer.BadParameter("diff takes two plans, --json and --table: fedcast plan diff A.json B.json")
    plans = [Path(path) for path in paths]
    check_file("--json", json, plans)
    check_file("--table", table, plans, table=True)
    difference = diff_plans(load_plan(plans[0]), load_plan(plans[1]))
    if json is not None:
        write_text(json, dumps(difference.as_dict()) + "\n")
    if table is not None:
        save_table(difference.table(), table, bom=bom)
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
