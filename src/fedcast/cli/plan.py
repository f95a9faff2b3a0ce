"""fedcast plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.options import DataDir, Overrides, Preset, read_scenario

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import SharingPlan
    from fedcast.world import World

_LISTED = 10

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO.toml | diff A.json B.json]", help="Scenario to plan, or two plans to compare."),
]
Counts = Annotated[
    Path | None, typer.Option(help="Own label counts: user and a column per class, or user,class,count.")
]
Links = Annotated[Path | None, typer.Option(help="Own links: user_a,user_b,rate_bps,closeness.")]
Positions = Annotated[Path | None, typer.Option(help="Own positions: user,x_m,y_m.")]
Devices = Annotated[Path | None, typer.Option(help="Own devices, one row per user.")]


def plan(
    words: Words = None,
    preset: Preset = "default",
    overrides: Overrides = None,
    data_dir: DataDir = None,
    counts: Counts = None,
    links: Links = None,
    positions: Positions = None,
    devices: Devices = None,
    previous: Annotated[Path | None, typer.Option(help="An older plan to start from; says what changed.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the plan as JSON.")] = None,
) -> None:
    """Plan: who shares how much with whom, how fast devices compute, and what it will cost."""
    from rich.console import Console

    from fedcast.plan import diff_plans, load_plan, make_plan, save_plan

    console = Console()
    words = words or []
    if words[:1] == ["diff"]:
        _compare(console, words[1:])
        return
    if len(words) > 1:
        raise typer.BadParameter(f"{' '.join(words)}: expected one scenario file, or diff A.json B.json")
    files = {"trust.links_file": links, "geometry.positions_file": positions, "devices.devices_file": devices}
    given = [f"{key}={path}" for key, path in files.items() if path is not None]
    world = _world(Path(words[0]) if words else None, preset, [*given, *(overrides or [])], data_dir, counts)
    before = load_plan(previous) if previous is not None else None
    made = make_plan(world.scenario, world=world, previous=before)
    _show(console, made)
    if before is not None:
        console.print("\nwhat changed", style="bold")
        for line in diff_plans(before, made).lines():
            console.print(f"  {line}", highlight=False)
    if json is not None:
        console.print(f"\nwrote {save_plan(made, json)}")


def _world(path: Path | None, preset: str, overrides: list[str], data_dir: Path | None, counts: Path | None) -> World:
    from fedcast.data.counts import read_counts
    from fedcast.world import make_world

    if counts is None:
        return make_world(read_scenario(path, preset, overrides), data_dir)
    population = read_counts(counts)
    overrides = [*overrides, "data.dataset=synthetic", f"data.num_users={population.num_users}"]
    return make_world(read_scenario(path, preset, overrides), data_dir, population)


def _compare(console: Console, paths: list[str]) -> None:
    from fedcast.plan import diff_plans, load_plan

    if len(paths) != 2:
        raise typer.BadParameter("diff takes two plans: fedcast plan diff A.json B.json")
    for line in diff_plans(load_plan(paths[0]), load_plan(paths[1])).lines():
        console.print(line, highlight=False)


def _show(console: Console, made: SharingPlan) -> None:
    import numpy as np

    heads, members = made.heads, int((made.head_of >= 0).sum())
    rule = made.scenario.clustering.rule
    console.print(
        f"{rule}: {len(heads):,} heads share with {members:,} of {made.num_users:,} users, "
        f"{int(made.shared[heads].sum()):,} samples in all, average sharing ratio {made.average_sharing_ratio:.3f}",
        style="bold",
    )
    for line in _figures(made):
        console.print(line, highlight=False)
    console.print("\nlargest clusters", style="bold")
    sizes = np.bincount(made.head_of[made.head_of >= 0], minlength=made.num_users)
    for head in heads[np.argsort(-sizes[heads], kind="stable")][:_LISTED]:
        volume, count = int(made.shared[head]), int(sizes[head])
        sent = f"{volume:,} sample{'s' if volume != 1 else ''}"
        console.print(f"  user {head} sends {sent} to {count} member{'s' if count != 1 else ''}", highlight=False)
    if not len(heads):
        console.print("  none: sharing does not pay, or nobody may share")
    if made.leakage:
        console.print("\ndelay against leakage", style="bold")
        for point in made.leakage:
            console.print(f"  {point.average_sharing_ratio:6.3f}  {point.delay_s:,.4g} s", highlight=False)


def _figures(made: SharingPlan) -> list[str]:
    delay = made.delay
    left_out = int((~made.trained).sum())
    lines = [
        f"average EMD {made.emd_before:.4f} → {made.emd_after:.4f}, JS {made.js_before:.4f} → {made.js_after:.4f}, "
        f"shift of the mixture {made.shift:.4f}",
        f"expected rounds {made.rounds_without:,.0f} → {made.rounds:,.0f} to "
        f"{made.scenario.rounds.target_accuracy:.4g} accuracy ({_fit(made)})",
        f"task {made.delay_without_s:,.4g} s → {delay.total_s:,.4g} s, {made.speed_up:.2f} times sooner: sharing "
        f"{delay.sharing_s:,.3g}, download {delay.download_s:,.3g}, compute {delay.compute_s:,.3g}, "
        f"upload {delay.upload_s:,.3g}",
        f"energy {made.energy_j.sum():,.3g} J a round, {made.sharing_j:,.3g} J for sharing; "
        f"{made.round_bytes / 1e6:,.3g} MB a round, {made.sharing_bytes / 1e6:,.3g} MB for sharing",
    ]
    if left_out:
        lines.append(f"{left_out:,} users cannot take part within their energy budget and are left out")
    return lines


def _fit(made: SharingPlan) -> str:
    """Which fit and form rounds come from, and of which data where these are others."""
    from fedcast.allocation import load_fit

    source, planned = load_fit(made.fit).dataset, made.scenario.data.dataset
    foreign = "" if source == planned else f", made on {source}: for your own data see `fedcast fit-rounds`"
    return f"fit {made.fit}, form {made.scenario.rounds.form}{foreign}"
