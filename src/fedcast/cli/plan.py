"""The command `fedcast plan`."""

from __future__ import annotations

from dataclasses import fields
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
    from fedcast.plan import CompareRules

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO.toml | diff A.json B.json]", help="Scenario to plan, or two plans to compare."),
]
Json = Annotated[Path | None, typer.Option(help="Write the plan, or the difference, as JSON; - for standard output.")]
CompareOption = Annotated[
    bool | None,
    typer.Option(
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
    rule: Annotated[str | None, typer.Option(help="Clustering rule; best tries all and keeps the fastest.")] = None,
    compare_rules: CompareOption = None,
    previous: Annotated[Path | None, typer.Option(help="Start from this plan, and print what changed.")] = None,
    json: Json = None,
    table: Annotated[Path | None, typer.Option(help="Write one row per user: .csv, .parquet or .xlsx.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the map of the plan: .png, .svg or .pdf.")] = None,
    width: PictureWidth = "screen",
    bom: Annotated[bool, typer.Option("--bom", help="Start a .csv with a byte-order mark, for Excel.")] = False,
) -> None:
    """Plan who shares how much with whom and how fast devices compute, and print what it costs."""
    from fedcast.cli.plan_text import print_plan
    from fedcast.cli.remarks import print_assumptions, print_doubts, print_size_note, print_tables
    from fedcast.io import save_table
    from fedcast.plan import clustering_of, diff_plans, load_plan, make_plan, make_world, plan_table, plan_to_json
    from fedcast.report import check_figure_path, plan_figure, save_figure
    from fedcast.scenario import named_files

    words = words or []
    tables = table_files(links, positions, base_stations, devices)
    if words[:1] == ["diff"]:
        _compare(words[1:], json, [counts, previous, table, picture, *tables.values()])
        return
    if len(words) > 1:
        raise typer.BadParameter(f"{' '.join(words)}: expected one scenario file, or diff A.json B.json")
    file = Path(words[0]) if words else None
    if rule is not None:
        overrides = [*(overrides or []), f"clustering.rule={rule}"]
    scenario, population = read_with_counts(file, preset, overrides, counts, tables)
    inputs = [file, counts, *named_files(scenario)]
    check_file("--json", json, inputs)
    check_file("--table", table, inputs, table=True)
    if picture is not None:
        check_figure_path(picture, width)
    before = load_plan(previous) if previous is not None else None
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    print_size_note(world)
    compared: CompareRules = "quick" if compare_rules is None else "full" if compare_rules else "no"
    made = make_plan(scenario, world=world, previous=before, compare_rules=compared)
    # Files first: printing fails if the output is a pipe that was closed.
    if json is not None:
        write_text(json, plan_to_json(made))
    if table is not None:
        save_table(plan_table(made, world), table, bom=bom)
    if picture is not None:
        save_figure(plan_figure(world, clustering_of(world, made)), picture, width)
    console = screen(json)
    print_plan(console, made, world, with_rules=compare_rules is True)
    if population is not None:
        print_tables(console, world)
    print_assumptions(console, made.assumptions)
    if before is not None:
        console.print("\nwhat changed", style="bold")
        for line in diff_plans(before, made).lines():
            console.print(f"  {line}")
    if written := [str(path) for path in (json, table, picture) if path is not None and str(path) != "-"]:
        console.print(f"\nwrote {' and '.join(written)}", soft_wrap=True)


def _compare(paths: list[str], json: Path | None, others: list[Path | None]) -> None:
    from json import dumps

    from fedcast.plan import diff_plans, load_plan

    if len(paths) != 2 or any(other is not None for other in others):
        raise typer.BadParameter("diff takes two plans and --json: fedcast plan diff A.json B.json")
    check_file("--json", json, [Path(path) for path in paths])
    difference = diff_plans(load_plan(paths[0]), load_plan(paths[1]))
    if json is not None:
        # All users of every kind of change; the printed text lists only a few.
        parts = [item.name for item in fields(difference) if item.name not in ("old", "new", "names")]
        write_text(json, dumps({part: difference.users(getattr(difference, part)) for part in parts}) + "\n")
    console = screen(json)
    for line in difference.lines():
        console.print(line)
