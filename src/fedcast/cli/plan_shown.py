"""A plan on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.formatting import pluralize, user_label

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import PlanDiff, SharingPlan
    from fedcast.plan.world import World

_LISTED = 10


def show_plan(console: Console, made: SharingPlan, world: World) -> None:
    """What is shared, what comes of it, the largest clusters, and delay against leakage."""
    heads, led = made.heads, made.head_of[made.head_of >= 0]
    sizes = np.bincount(led, minlength=made.num_users)
    console.print(
        f"{made.scenario.clustering.rule}: {pluralize(len(heads), 'head')} share{'s' if len(heads) == 1 else ''} with "
        f"{len(led):,} of {pluralize(made.num_users, 'user')}, "
        f"{pluralize(int(made.shared[heads].sum()), 'sample')} in all, average sharing ratio "
        f"{made.average_sharing_ratio:.3f}",
        style="bold",
    )
    for line in (*_figures(made), *_left_out(made, world, sizes > 0)):
        console.print(line)
    console.print("\nlargest clusters", style="bold")
    for head in heads[np.argsort(-sizes[heads], kind="stable")][:_LISTED]:
        sent, members = pluralize(int(made.shared[head]), "sample"), pluralize(int(sizes[head]), "member")
        console.print(f"  {user_label(head, made.names)} sends {sent} to {members}")
    if not len(heads):
        console.print("  none: sharing does not pay, or nobody may share")
    points = list(dict.fromkeys(made.leakage))
    if len(points) > 1:
        console.print("\ndelay against leakage", style="bold")
        for point in points:
            console.print(f"  {point.average_sharing_ratio:6.3f}  {point.delay_s:,.4g} s")


def show_assumptions(console: Console, world: World) -> None:
    """What the tables said of users, classes and devices, and what they left open."""
    from fedcast.cli.remarks import assumptions

    population = world.population
    names = list(population.class_names[:_LISTED])
    names += ["…"] if len(population.class_names) > _LISTED else []
    classes = pluralize(len(population.class_names), "class", "classes")
    console.print("\nfrom your tables", style="bold")
    console.print(
        f"  {pluralize(population.num_users, 'user')}, {pluralize(int(population.sizes.sum()), 'sample')}, {classes}: "
        f"{', '.join(names)}",
    )
    if world.scenario.devices.devices_file is not None:
        console.print(f"  devices: {_columns(world.scenario.devices.devices_file)}")
    if lines := assumptions(world):
        console.print("assumed, since nothing says it", style="bold")
        for line in lines:
            console.print(f"  {line}")


def _columns(path: str) -> str:
    from fedcast.cost import device_columns

    found = device_columns(path)
    ignored = f"; not known and ignored: {', '.join(found.ignored)}" if found.ignored else ""
    return f"{', '.join(found.read) or 'no column that is known'}{ignored}"


def show_changes(console: Console, difference: PlanDiff) -> None:
    """From the plan before to this one."""
    console.print("\nwhat changed", style="bold")
    for line in difference.lines():
        console.print(f"  {line}")


def _figures(made: SharingPlan) -> list[str]:
    delay = made.delay
    return [
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


def _left_out(made: SharingPlan, world: World, sends: NDArray[np.bool_]) -> list[str]:
    """Who does not train, and why; who cannot upload may share all the same."""
    empty = ~made.trained & (world.population.sizes == 0)
    unable = ~made.trained & ~empty
    lines = []
    if empty.any():
        lines.append(f"{pluralize(int(empty.sum()), 'user')} without samples: nothing to train on")
    if unable.any():
        leading = int((unable & sends).sum())
        also = f"; {leading:,} of them still send{'s' if leading == 1 else ''} samples as heads" if leading else ""
        who = pluralize(int(unable.sum()), "user")
        lines.append(f"{who} cannot take part within the energy budget: left out of training{also}")
    return lines


def _fit(made: SharingPlan) -> str:
    """Which fit and form rounds come from, and of which data where these are others."""
    from fedcast.rounds import load_fit

    source, planned = load_fit(made.fit).dataset, made.scenario.data.dataset
    foreign = "" if source == planned else f", made on {source}: for your own data see `fedcast fit-rounds`"
    measure = "" if made.measure == "emd" else f" of {made.measure.upper()}"
    return f"fit {made.fit}, form {made.form}{measure}{foreign}"
