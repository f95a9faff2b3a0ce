"""Make a sharing plan: who shares how much with whom, how fast and how long devices compute, and what it costs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.allocation import AllocationResult, part_of
from fedcast.clustering import ROUNDING, RULES, Clustering, cluster, matched_volume
from fedcast.cost import TaskCost, budget_notes, feasibility, metrics_of, task_cost, upload_notes
from fedcast.errors import FedcastError, NotReachableError, OutsideFitError
from fedcast.formatting import quantity
from fedcast.plan.candidates import Candidate, delay_of
from fedcast.plan.changes import changes_text
from fedcast.plan.curves import baselines, leakage_curve, privacy_curve
from fedcast.plan.kind_choice import kind_choices, kind_notes, with_kinds
from fedcast.plan.scenario_checks import attendance_notes, needs_rounds, ratio_notes
from fedcast.plan.search import CompareRules, Search
from fedcast.plan.sharing_plan import RuleOutcome, SharingPlan
from fedcast.plan.world import World, check_world, make_world, sharing_cost_of
from fedcast.rounds import RoundsModel, fit_of, rounds_assumptions
from fedcast.scenario import BEST_KIND, BEST_RULE, ScenarioLike, as_scenario
from fedcast.typing import Bools, Ints

_ASYNCHRONOUS = "training.buffer_size is set, and no fit covers asynchronous training; volumes are those for rounds"

_OF_CONTROL = "a control is not planned; it trains on as many samples a round as the plan that it is compared with"


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan with the values that it was made from; the clustering has the volumes of the plan."""

    world: World
    clustering: Clustering
    cost: TaskCost
    plan: SharingPlan


def make_plan(
    scenario: ScenarioLike,
    *,
    data_dir: str | Path | None = None,
    world: World | None = None,
    previous: SharingPlan | None = None,
    with_curve: bool = True,
    compare_rules: CompareRules = "no",
) -> SharingPlan:
    """Plan a scenario, or a world made from it.

    Every rule gives a plan. If the fit of rounds does not cover the scenario, rounds and delay of the task are not
    predicted (None); methods that optimise the delay need them, and raise an error.

    Args:
        scenario: all parameters, the path of a scenario file, or the name of a preset.
        data_dir: where dataset files are looked for first.
        world: made from the same scenario; None: make it.
        previous: a plan of the same users before some joined, left or moved: planning starts with its volumes, and its
            clusters, as far as their links still exist, compete with new ones. Users are matched by name, or by id if
            they have no names. Rules without heads do not use it.
        with_curve: also find the delay against leakage.
        compare_rules: for a scenario that names a rule, ``quick`` also tries the others in one pass each, and a note
            says if one is more than 2 % faster; ``full`` plans them as rule ``best`` does, and the plan has `rules`.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> plan = make_plan(load_scenario(overrides=["clustering.rule=blend"]), with_curve=False)
        >>> plan.num_users, plan.local_epochs, bool(plan.delay.total_s < plan.without.delay_s)
        (100, 8, True)
    """
    scenario = as_scenario(scenario)
    world = make_world(scenario, data_dir) if world is None else check_world(world, scenario)
    return plan_world(world, previous=previous, with_curve=with_curve, compare_rules=compare_rules).plan


def plan_world(
    world: World,
    *,
    previous: SharingPlan | None = None,
    with_curve: bool = True,
    compare_rules: CompareRules = "no",
) -> Planned:
    """Plan a world; see `make_plan`."""
    try:
        return _predicted(world, previous, with_curve, compare_rules)
    except OutsideFitError as error:
        if not needs_rounds(world.scenario):
            return _not_predicted(world, str(error))
        scenario = world.scenario
        open_choices = {
            "a rule (clustering.rule)": scenario.clustering.rule == BEST_RULE,
            "a kind (sharing.kind)": scenario.sharing.kind == BEST_KIND,
        }
        names = " and ".join(name for name, is_open in open_choices.items() if is_open)
        named = f"name {names} and " if names else ""
        raise type(error)(f"{error}; or {named}share a fixed ratio: allocation.method = fixed") from None


def plan_changes(
    before: World, after: World, *, with_curve: bool = True, compare_rules: CompareRules = "no"
) -> tuple[Planned, Planned]:
    """Plan a world before and after changes; clusters of each plan, as far as they are possible, compete in the other.

    A search may miss clusters. If only a link is taken away, the second plan is therefore never the faster one: its
    clusters were possible before. The curve and the comparison of rules are those of the second plan.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> few = ["data.num_users=12", "clustering.rule=gain", "training.local_epochs=1"]
        >>> worlds = [make_world(load_scenario(overrides=[*few, *more])) for more in ([], ["changes.without=3"])]
        >>> before, after = plan_changes(*worlds, with_curve=False)
        >>> bool(before.plan.trained[3]), bool(after.plan.trained[3])
        (True, False)
    """
    if not (needs_rounds(before.scenario) and needs_rounds(after.scenario)):
        first = plan_world(before, with_curve=False)
        return first, plan_world(after, with_curve=with_curve, compare_rules=compare_rules)
    if before.scenario.sharing.kind == BEST_KIND and before.kinds is None:
        # The kinds of the plan after the changes: what differs is then due to the changes alone.
        chosen = plan_world(after, with_curve=False).world.kinds
        assert chosen is not None
        before, after = with_kinds(before, chosen), with_kinds(after, chosen)
    searches = Search(before), Search(after)
    old, _ = searches[0].best()
    first = _planned_from(searches[0], old, (), with_curve=False)
    new, rules = searches[1].best(None, compare_rules, [first.plan])
    second = _planned_from(searches[1], new, rules, with_curve)
    back = searches[0].carried(second.plan)
    if back is None or back.result.objective_s >= old.result.objective_s:
        return first, second
    note = (
        f"with the clusters of this plan the task takes {quantity(back.result.objective_s, 's')} without the changes, "
        f"where a plan of its own takes {quantity(old.result.objective_s, 's')}; the first is compared"
    )
    first = _planned_from(searches[0], back, (), with_curve=False)
    return first, replace(second, plan=replace(second.plan, notes=(*second.plan.notes, note)))


def clustering_of(world: World, plan: SharingPlan) -> Clustering:
    """Return the clusters of a loaded plan, with its volumes, in the world that it was made for."""
    settings = plan.scenario.clustering.model_copy(update={"rule": plan.rule, "composition": plan.composition})
    problem = replace(world.problem(settings), volumes=plan.shared.astype(np.float64))
    if plan.server_samples:
        return cluster(replace(problem, server_volume=plan.server_samples))
    options = settings.options("clustering") if plan.rule in RULES else None
    return Clustering(problem, plan.head_of, ignores_graph=not getattr(options, "respect_graph", True))


def control_of(planned: Planned, samples: Ints) -> Planned:
    """Return what a plan costs if nobody shares and user k trains on ``samples[k]`` samples of its own, int[K].

    The same users train, except those without samples. Devices compute at the best frequencies for these samples: those
    of the plan, where the number of samples is that of the plan. The distribution of every user is that before sharing;
    averages after sharing weigh users by these samples.
    """
    world, problem = planned.world, planned.clustering.problem
    alone = problem.settings.model_copy(update={"rule": "none", "composition": "own"})
    clustering = cluster(replace(problem, settings=alone))
    trained, repeated = planned.plan.trained & (samples > 0), replace(world.skew, sizes=samples.astype(np.float64))
    before, after = part_of(world.skew, trained), part_of(repeated, trained)
    cost = task_cost(sharing_cost_of(world, clustering), world.fleet, repeated.sizes, trained)
    plan = replace(
        planned.plan,
        **vars(metrics_of(before, after, world.scenario.clustering.weighting, 0.0, cost)),
        **_per_user(cost, trained),
        head_of=clustering.head_of,
        shared=np.zeros(len(samples), dtype=np.int64),
        server_samples=0.0,
        composition="own",
        rounds=None,
        rounds_interval=None,
        without=None,
        best_without=None,
        not_predicted=_OF_CONTROL,
        leakage=(),
        rules=(),
        notes=(),
    )
    return replace(planned, clustering=clustering, cost=cost, plan=plan)


def _predicted(world: World, previous: SharingPlan | None, with_curve: bool, compare_rules: CompareRules) -> Planned:
    """Plan with predicted rounds and delay of the task."""
    if world.scenario.sharing.kind != BEST_KIND or world.kinds is not None:
        search = Search(world)
        best, rules = search.best(previous, compare_rules)
        return _planned_from(search, best, rules, with_curve)
    found = []
    for kinds in kind_choices(world, Search(world).rounds):
        search = Search(with_kinds(world, kinds))
        with suppress(NotReachableError):
            found.append((search, *search.best(previous, compare_rules)))
    if not found:
        return _predicted(with_kinds(world, kinds), previous, with_curve, compare_rules)
    return _planned_from(*min(found, key=lambda one: delay_of(one[1])), with_curve)


def _planned_from(search: Search, best: Candidate, rules: tuple[RuleOutcome, ...], with_curve: bool) -> Planned:
    """Put the plan of a candidate together, with its prediction."""
    world, result, model = search.world, best.result, search.rounds
    as_given, best_without = baselines(search)
    drawn = with_curve and result.clustering.broadcast is None
    curve, privacy = (leakage_curve(search, best), privacy_curve(search, best)) if drawn else ((), ())
    clustering = _without_idle_heads(result.clustering)
    world = replace(world, fleet=replace(world.fleet, local_epochs=best.local_epochs))
    cost = TaskCost(sharing_cost_of(world, clustering), replace(result.round, draws=world.fleet.draws))
    planned = _planned(world, clustering, cost, result.trained, best.rule)
    if world.scenario.training.buffer_size is not None:
        return replace(planned, plan=replace(planned.plan, not_predicted=_ASYNCHRONOUS, passes=best.passes))
    plan = replace(
        planned.plan,
        rounds=result.rounds,
        rounds_interval=model.interval(result.skew, result.steps, result.shift),
        without=as_given,
        best_without=best_without,
        leakage=curve,
        privacy=privacy,
        rules=rules,
        notes=tuple(
            dict.fromkeys(
                [
                    *planned.plan.notes,
                    *search.notes,
                    *kind_notes(world, model, clustering.heads),
                    *_extrapolation(model, result.steps),
                    *_beyond_reach(search, result),
                ]
            )
        ),
        passes=best.passes,
    )
    return replace(planned, plan=plan)


def _beyond_reach(search: Search, result: AllocationResult) -> list[str]:
    """Return notes if runs at the skew of the plan, or without sharing, ended below the target accuracy."""
    if notes := search.rounds.target_notes(result.skew):
        return list(notes)
    alone = search.alone(search.choices[0])
    return [] if alone is None else [f"without sharing, {note}" for note in search.rounds.target_notes(alone.skew)]


def _extrapolation(model: RoundsModel, steps: float) -> list[str]:
    """Return a note if the fit does not cover the local steps of a round."""
    low, high = model.steps_range
    if model.form != "law" or low <= steps <= high:
        return []
    return [
        f"{steps:,.1f} local steps in a round on average; fit {model.name} covers {low:,.3g} to {high:,.4g}, so that "
        "the rounds are extrapolated: make a fit for your data with `fedcast fit-rounds`"
    ]


def _not_predicted(world: World, reason: str) -> Planned:
    """Plan the fixed ratio or the rule without heads where the fit of rounds does not cover the scenario."""
    clustering = _at_fixed_ratio(world, world.scenario.clustering.rule)
    if clustering.broadcast is None:
        clustering = _without_idle_heads(clustering)
    else:
        volume = matched_volume(_at_fixed_ratio(world, "daca"))
        clustering = cluster(replace(clustering.problem, server_volume=volume))
    sizes = clustering.after.sizes
    trained = sizes > 0
    cost = task_cost(sharing_cost_of(world, clustering), world.fleet, sizes, trained)
    if not np.isfinite(cost.round.round_s):
        report = feasibility(world.fleet, sizes)
        few = "; ".join(report.explain(int(user)) for user in report.infeasible_users[:3])
        raise FedcastError(f"{len(report.infeasible_users)} users cannot take part within their energy budget: {few}")
    planned = _planned(world, clustering, cost, trained, world.scenario.clustering.rule)
    return replace(planned, plan=replace(planned.plan, not_predicted=reason))


def _at_fixed_ratio(world: World, rule: str) -> Clustering:
    """Return the clusters of a rule in which heads share the fixed ratio, lowered to the limit of its average."""
    scenario, settings = world.scenario, world.scenario.allocation
    ratio = min(settings.options("allocation", "fixed").ratio, settings.max_sharing_ratio)
    clustering = cluster(world.problem(scenario.clustering.model_copy(update={"rule": rule, "sharing_ratio": ratio})))
    average, limit = clustering.average_sharing_ratio, settings.max_asr
    if clustering.broadcast is not None or limit is None or average <= limit:
        return clustering
    return clustering.with_volumes(np.floor(clustering.problem.volumes * (limit / average) + ROUNDING))


def _without_idle_heads(clustering: Clustering) -> Clustering:
    """Return the clustering without heads whose volume was solved to 0: they send nothing."""
    return replace(clustering, head_of=np.where(clustering.received > 0, clustering.head_of, -1), proof=None)


def _planned(world: World, clustering: Clustering, cost: TaskCost, trained: Bools, rule: str) -> Planned:
    """Put a plan together, without rounds and delay of the task."""
    scenario = world.scenario
    fit = fit_of(scenario.rounds, scenario.data.dataset)
    before, after = part_of(world.skew, trained), part_of(clustering.after, trained)
    weighting = scenario.clustering.weighting
    if cost.round.draws is not None:
        cost.round.draws.participation.check_times(cost.round.user_s)
    plan = SharingPlan(
        **vars(metrics_of(before, after, weighting, clustering.average_sharing_ratio, cost)),
        **_per_user(cost, trained),
        scenario=scenario,
        rule=rule,
        local_epochs=world.fleet.local_epochs,
        head_of=clustering.head_of,
        shared=clustering.shared.astype(np.int64),
        server_samples=0.0 if clustering.broadcast is None else clustering.broadcast.volume,
        composition=clustering.problem.settings.composition,
        kinds=None if world.kinds is None else tuple(world.kinds.tolist()),
        fit=fit.name if scenario.rounds.fit == "auto" else scenario.rounds.fit,
        form=fit.form(scenario.rounds.form),
        measure=fit.measure,
        names=world.population.names,
        notes=(
            *([f"planned with changes: {changed}"] if (changed := changes_text(scenario.changes)) else []),
            *ratio_notes(scenario),
            *budget_notes(world.devices, scenario),
            *upload_notes(scenario),
            *attendance_notes(cost.round),
        ),
        assumptions=(*world.assumptions, *rounds_assumptions(scenario, world.population.dataset)),
    )
    return Planned(world, clustering, cost, plan)


def _per_user(cost: TaskCost, trained: Bools) -> dict[str, Any]:
    """Return frequency and energy of all users in a round; 0 of those that do not train."""
    frequency, energy = np.zeros((2, len(trained)))
    frequency[trained], energy[trained] = cost.round.frequency_hz, cost.round.energy_j
    return {"frequency_hz": frequency, "energy_j": energy}
