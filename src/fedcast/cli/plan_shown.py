"""Print a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.formatting import pluralize, user_label

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import SharingPlan, World

_LISTED = 10


def show_plan(console: Console, made: SharingPlan, world: World) -> None:
    """Print what is shared, what it costs, the largest clusters, and the delay against leakage."""
    heads = made.heads
    sizes = np.bincount(made.head_of[made.head_of >= 0], minlength=made.num_users)
    console.print(
        f"{made.scenario.clustering.rule}: {_who_shares(made)}, average sharing ratio {made.average_sharing_ratio:.3f}",
        style="bold",
    )
    for line in (*_figures(made), *_left_out(made, world, sizes > 0)):
        console.print(line)
    if not made.server_samples:
        console.print("\nlargest clusters", style="bold")
    for head in heads[np.argsort(-sizes[heads], kind="stable")][:_LISTED]:
        sent, members = pluralize(int(made.shared[head]), "sample"), pluralize(int(sizes[head]), "member")
        console.print(f"  {user_label(head, made.names)} sends {sent} to {members}")
    if not len(heads) and not made.server_samples:
        console.print("  none: sharing does not shorten the task, or no user may share")
    points = list(dict.fromkeys(made.leakage))
    if len(points) > 1:
        console.print("\ndelay against leakage", style="bold")
        for point in points:
            console.print(f"  {point.average_sharing_ratio:6.3f}  {point.delay_s:,.4g} s")


def _who_shares(made: SharingPlan) -> str:
    users, heads = pluralize(made.num_users, "user"), made.heads
    if made.server_samples:
        return f"the server sends {pluralize(int(made.server_samples), 'sample')} to each of {users}"
    return (
        f"{pluralize(len(heads), 'head')} share{'s' if len(heads) == 1 else ''} with "
        f"{np.count_nonzero(made.head_of >= 0):,} of {users}, "
        f"{pluralize(int(made.shared[heads].sum()), 'sample')} in all"
    )


def _figures(made: SharingPlan) -> list[str]:
    return [
        f"average EMD {made.emd_before:.4f} → {made.emd_after:.4f}, JS {made.js_before:.4f} → {made.js_after:.4f}, "
        f"shift of the label distribution {made.shift:.4f}",
        *_prediction(made),
        f"energy {made.energy_j.sum():,.3g} J per round, {made.sharing_j:,.3g} J for sharing; "
        f"{made.round_bytes / 1e6:,.3g} MB per round, {made.sharing_bytes / 1e6:,.3g} MB for sharing",
    ]


def _prediction(made: SharingPlan) -> list[str]:
    """Return rounds and delay of the task, or the reason why they are not predicted with the delay of a round."""
    delay = made.delay
    if delay is None:
        return [
            f"rounds and delay of the task not predicted: {made.not_predicted}",
            f"sharing {made.sharing_s:,.3g} s, a round {made.round_s:,.4g} s: download {made.download_s:,.3g}, compute "
            f"{made.compute_s:,.3g}, upload {made.upload_s:,.3g}",
        ]
    return [
        f"expected rounds {made.rounds_without:,.0f} → {made.rounds:,.0f} to "
        f"{made.scenario.rounds.target_accuracy:.4g} accuracy ({_fit(made)})",
        f"task {made.delay_without_s:,.4g} s → {delay.total_s:,.4g} s, {made.speed_up:.2f} times faster: sharing "
        f"{delay.sharing_s:,.3g}, download {delay.download_s:,.3g}, compute {delay.compute_s:,.3g}, "
        f"upload {delay.upload_s:,.3g}",
    ]


def _left_out(made: SharingPlan, world: World, sends: NDArray[np.bool_]) -> list[str]:
    """Return how many users do not train, and why; users that cannot upload may still share."""
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
    """Return the fit and form of rounds, and its dataset if that is another than the scenario's."""
    from fedcast.rounds import load_fit

    source, planned = load_fit(made.fit).dataset, made.scenario.data.dataset
    foreign = "" if source == planned else f", made on {source}: for your own data see `fedcast fit-rounds`"
    measure = "" if made.measure == "emd" else f" of {made.measure.upper()}"
    return f"fit {made.fit}, form {made.form}{measure}{foreign}"
