"""The text of `fedcast plan`: what is shared, what it costs, and how rules compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.formatting import percent, pluralize, quantity, user_label

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import RuleOutcome, SharingPlan, World
    from fedcast.typing import Bools

_LISTED = 10


def print_plan(
    console: Console, made: SharingPlan, world: World, *, with_rules: bool = False, rules_option: bool = True
) -> None:
    """Print what is shared, what it costs, the largest clusters and delay against leakage; on request all rules.

    Without `rules_option` the command has no option that shows all rules.
    """
    import numpy as np

    heads = made.heads
    sizes = np.bincount(made.head_of[made.head_of >= 0], minlength=made.num_users)
    console.print(_headline(made), style="bold")
    lines = [
        f"average EMD {made.emd_before:.4f} → {made.emd_after:.4f}, JS {made.js_before:.4f} → {made.js_after:.4f}, "
        f"shift of the label distribution {made.shift:.4f}",
        *_prediction(made),
        f"energy {quantity(made.round_j, 'J')} per round, {quantity(made.sharing_j, 'J')} for sharing; "
        f"{quantity(made.round_bytes, 'B')} per round, {quantity(made.sharing_bytes, 'B')} for sharing",
        *_left_out(made, world, sizes > 0),
        *([] if with_rules else _next_rule(made, " (--compare-rules shows all)" if rules_option else "")),
        *(f"note: {note}" for note in made.notes),
    ]
    for line in lines:
        console.print(line)
    if not made.server_samples:
        console.print("\nlargest clusters", style="bold")
    for head in heads[np.argsort(-sizes[heads], kind="stable")][:_LISTED]:
        kind = "" if made.kinds is None else f"{made.kinds[head]} "
        sent, members = pluralize(int(made.shared[head]), f"{kind}sample"), pluralize(int(sizes[head]), "member")
        console.print(f"  {user_label(head, made.names)} sends {sent} to {members}")
    if not len(heads) and not made.server_samples:
        console.print("  none: sharing does not shorten the task, or no user may share")
    _print_curves(console, made)
    if made.rules and with_rules:
        _print_rules(console, made)


def _print_curves(console: Console, made: SharingPlan) -> None:
    """Print the delay against leakage of raw samples and, beside it, against ε of private ones."""
    from itertools import zip_longest

    leakage = [f"  {one.average_sharing_ratio:21.3f}  {quantity(one.delay_s, 's')}" for one in made.leakage]
    privacy = [
        f"{one.epsilon:5g}  {quantity(one.delay_s, 's'):>17}  {one.kind if one.epsilon else 'none'}"
        for one in (made.privacy if len(made.privacy) > 1 else ())
    ]
    if len(leakage) < 2:
        return
    wide = 43 if privacy else 0
    title = f"{'delay against leakage':{wide}}" + ("delay against ε" if privacy else "")
    console.print(f"\n{title}", style="bold")
    beside = "    ε  delay of the task  samples" if privacy else ""
    console.print(f"{'  average sharing ratio  delay of the task':{wide}}{beside}", style="dim")
    for one, other in zip_longest(leakage, privacy, fillvalue=""):
        console.print(f"{one:{wide}}{other}".rstrip())
    if len(made.privacy) == 1:
        console.print("  to send samples with differential privacy instead would save no time")


def _headline(made: SharingPlan) -> str:
    """Return the rule, who shares, and the local epochs; or, plainly, that nothing is shared."""
    epochs = pluralize(made.local_epochs, "local epoch")
    if not len(made.heads) and not made.server_samples:
        return f"share nothing, train {epochs} a round"
    return f"{made.rule}: {_who_shares(made)}, average sharing ratio {made.average_sharing_ratio:.3f}; {epochs} a round"


def _next_rule(made: SharingPlan, option: str) -> list[str]:
    """Return how much slower the next rule is, if the plan chose among rules, and the option that shows all."""
    from fedcast.clustering import from_server

    others = [one for one in _by_delay(made) if one.rule != made.rule and not from_server(one.rule)]
    if not others or made.scenario.clustering.rule == made.rule:
        return []
    following, tried = others[0], pluralize(len(made.rules), "rule")
    if following.delay_s is None or made.delay_s is None:
        return [f"{made.rule} is the only of {tried} with which the target is reachable{option}"]
    slower = following.delay_s / made.delay_s - 1
    by = f"{percent(slower)} slower" if slower >= 0.0005 else "as fast"
    return [f"{made.rule} is the fastest of {tried}; {following.rule} is {by}{option}"]


def _by_delay(made: SharingPlan) -> list[RuleOutcome]:
    """Return what each rule gives, fastest first."""
    from math import inf

    return sorted(made.rules, key=lambda one: inf if one.delay_s is None else one.delay_s)


def _print_rules(console: Console, made: SharingPlan) -> None:
    """Print the best plan of each rule, fastest first."""
    from fedcast.clustering import from_server

    console.print("\nrules", style="bold")
    console.print("  rule      delay of the task  local epochs  average sharing ratio", style="dim")
    for one in _by_delay(made):
        if one.delay_s is None:
            console.print(f"  {one.rule:8}  the target is not reachable")
            continue
        server = "  from the server, not chosen by itself" if from_server(one.rule) else ""
        delay = f"{quantity(one.delay_s, 's'):>17}"
        console.print(f"  {one.rule:8}  {delay}  {one.local_epochs:12}  {one.average_sharing_ratio:21.3f}{server}")


def _who_shares(made: SharingPlan) -> str:
    users, heads = pluralize(made.num_users, "user"), made.heads
    if made.server_samples:
        return f"the server sends {pluralize(int(made.server_samples), 'sample')} to each of {users}"
    return (
        f"{pluralize(len(heads), 'head')} share{'s' if len(heads) == 1 else ''} {int(made.shared[heads].sum()):,} of "
        f"{'its' if len(heads) == 1 else 'their'} samples with {(made.head_of >= 0).sum():,} of {users}"
    )


def _prediction(made: SharingPlan) -> list[str]:
    """Return rounds and delay of the task, or the reason why they are not predicted with the delay of a round."""
    delay = made.delay
    if delay is None:
        return [
            f"rounds and delay of the task not predicted: {made.not_predicted}",
            f"sharing {quantity(made.sharing_s, 's')}, a round {quantity(made.round_s, 's')}: download "
            f"{quantity(made.download_s, 's')}, compute {quantity(made.compute_s, 's')}, upload "
            f"{quantity(made.upload_s, 's')}",
        ]
    ends, measure = made.rounds_interval, "" if made.measure == "emd" else f" of {made.measure.upper()}"
    interval = "" if ends is None else f" ({ends[0]:,.0f} to {ends[1]:,.0f} in 90 % of runs)"
    return [
        f"{made.rounds:,.1f} rounds expected{interval} to {made.scenario.rounds.target_accuracy:.4g} accuracy "
        f"(fit {made.fit}, form {made.form}{measure})",
        f"task {quantity(delay.total_s, 's')}: sharing {quantity(delay.sharing_s, 's')}, download "
        f"{quantity(delay.download_s, 's')}, compute {quantity(delay.compute_s, 's')}, upload "
        f"{quantity(delay.upload_s, 's')}",
        *_without_sharing(made),
    ]


def _without_sharing(made: SharingPlan) -> list[str]:
    """Return the tasks without sharing, at their best and as given, and how much faster the plan is."""
    best, given = made.best_without, made.without
    if best is None or made.speed_up is None:
        return ["without sharing the target is not reachable"]
    at_best = f"{pluralize(best.local_epochs, 'local epoch')}, learning rate {best.learning_rate:.3g}"
    best_s = quantity(best.delay_s, "s")
    lines = [f"without sharing at its best ({at_best}): {best_s}, the plan is {_faster(made.speed_up)}"]
    if given is not None and given != best and made.delay_s is not None:
        at_given = f"{pluralize(given.local_epochs, 'local epoch')}, learning rate {given.learning_rate:.3g}"
        given_s, ratio = quantity(given.delay_s, "s"), given.delay_s / made.delay_s
        lines.append(f"without sharing, {at_given}: {given_s}, the plan is {_faster(ratio)}")
    return lines


def _faster(ratio: float) -> str:
    return "as fast" if abs(ratio - 1) < 0.005 else f"{ratio:.2f}× faster" if ratio > 1 else f"{1 / ratio:.2f}× slower"


def _left_out(made: SharingPlan, world: World, sends: Bools) -> list[str]:
    """Return how many users do not train, and why; users that cannot upload may still share."""
    from fedcast.plan import read_changes

    gone = read_changes(made.scenario.changes, made.num_users, made.names).gone
    empty = ~made.trained & (world.population.sizes == 0)
    unable, empty = ~made.trained & ~empty, empty & ~gone
    lines = []
    if empty.any():
        lines.append(f"{pluralize(int(empty.sum()), 'user')} without samples: nothing to train on")
    if unable.any():
        leading = int((unable & sends).sum())
        also = f"; {leading:,} of them still send{'s' if leading == 1 else ''} samples as heads" if leading else ""
        who = pluralize(int(unable.sum()), "user")
        lines.append(f"{who} cannot take part within the energy budget: left out of training{also}")
    return lines
