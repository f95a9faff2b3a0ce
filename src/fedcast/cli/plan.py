"""The command `fedcast plan`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcast.cli.arguments import Counts, DataDir, Links, Overrides, Preset, read_with_counts

if TYPE_CHECKING:
    from fedcast.plan import SharingPlan

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO.toml | diff A.json B.json]", help="Scenario to plan, or two plans to compare."),
]
Positions = Annotated[Path | None, typer.Option(help="Table of positions: user,x_m,y_m.")]
Devices = Annotated[Path | None, typer.Option(help="Table of devices, one row per user.")]
Previous = Annotated[Path | None, typer.Option(help="Previous plan to start from; also prints what changed.")]
Json = Annotated[Path | None, typer.Option(help="Write the plan, or the difference, as JSON; - for standard output.")]
PerUser = Annotated[Path | None, typer.Option(help="Write one row per user: .csv or .parquet.")]


def plan(
    words: Words = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    counts: Counts = None,
    links: Links = None,
    positions: Positions = None,
    devices: Devices = None,
    previous: Previous = None,
    json: Json = None,
    table: PerUser = None,
) -> None:
    """Plan who shares how much with whom and how fast devices compute, and print what it costs."""
    from fedcast.cli.output import check_file, screen, write_json
    from fedcast.cli.plan_shown import show_plan
    from fedcast.cli.remarks import print_assumptions, print_doubts
    from fedcast.io import save_table
    from fedcast.plan import diff_plans, load_plan, make_plan, make_world, plan_to_json
    from fedcast.scenario import named_files

    words = words or []
    tables = {"trust.links_file": links, "geometry.positions_file": positions, "devices.devices_file": devices}
    if words[:1] == ["diff"]:
        _compare(words[1:], json, [counts, previous, table, *tables.values()])
        return
    if len(words) > 1:
        raise typer.BadParameter(f"{' '.join(words)}: expected one scenario file, or diff A.json B.json")
    file = Path(words[0]) if words else None
    scenario, population = read_with_counts(file, preset, overrides, counts, tables)
    inputs = [file, counts, *named_files(scenario)]
    check_file("--json", json, inputs)
    check_file("--table", table, inputs, table=True)
    before = load_plan(previous) if previous is not None else None
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    made = make_plan(scenario, world=world, previous=before)
    # Files first: printing fails if the output is a pipe that was closed.
    if json is not None:
        write_json(json, plan_to_json(made))
    if table is not None:
        save_table(_rows(made), table)
    console = screen(json)
    show_plan(console, made, world)
    if population is not None:
        print_assumptions(console, world)
    if before is not None:
        console.print("\nwhat changed", style="bold")
        for line in diff_plans(before, made).lines():
            console.print(f"  {line}")
    if written := [str(path) for path in (json, table) if path is not None and str(path) != "-"]:
        console.print(f"\nwrote {' and '.join(written)}", soft_wrap=True)


def _rows(made: SharingPlan) -> dict[str, Any]:
    """Return the table with one row per user."""
    import numpy as np

    users, led = np.arange(made.num_users), made.head_of >= 0
    called = (users if made.names is None else made.names).tolist()
    return {
        "user": called,
        "role": np.select([np.isin(users, made.heads), led], ["head", "member"], "alone"),
        "head": [called[head] if head >= 0 else None for head in made.head_of],
        "shared_samples": made.shared,
        # What the server sends is a mean over users before it is rounded down.
        "received_samples": made.received.astype(int),
        "frequency_hz": made.frequency_hz,
        "energy_j": made.energy_j,
        "trained": made.trained,
    }


def _compare(paths: list[str], json: Path | None, others: list[Path | None]) -> None:
    from json import dumps

    from fedcast.cli.output import check_file, screen, write_json
    from fedcast.plan import diff_plans, load_plan

    if len(paths) != 2 or any(other is not None for other in others):
        raise typer.BadParameter("diff takes two plans and --json: fedcast plan diff A.json B.json")
    check_file("--json", json, [Path(path) for path in paths])
    difference = diff_plans(load_plan(paths[0]), load_plan(paths[1]))
    if json is not None:
        # All users of every kind of change; the printed text lists only a few.
        parts = [item.name for item in fields(difference) if item.name not in ("old", "new", "names")]
        write_json(json, dumps({part: difference.users(getattr(difference, part)) for part in parts}) + "\n")
    console = screen(json)
    for line in difference.lines():
        console.print(line)
