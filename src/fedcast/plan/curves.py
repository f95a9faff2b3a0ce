"""Tasks without sharing, with which a plan is compared, and the plan's delay against leakage and against ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from fedcast.allocation import AllocationResult
from fedcast.cost import Delay, feasibility, round_cost
from fedcast.plan.candidates import NOTEWORTHY, Candidate, delay_of
from fedcast.plan.kind_choice import RAW, known_kinds, reveals, with_kinds
from fedcast.plan.search import Search
from fedcast.plan.sharing_plan import Baseline, LeakagePoint, PrivacyPoint
from fedcast.plan.world import World

# Limits on the average sharing ratio in the curve, as shares of the plan's; none and all of it come without a search.
_CURVE_SHARES, _CURVE_SHARES_OF_MANY = (0.2, 0.4, 0.6, 0.8), (0.5,)
# ε of the curve of delay against privacy.
_CURVE_EPSILONS, _CURVE_EPSILONS_OF_MANY = (0.5, 1.0, 2.0, 4.0, 8.0), (2.0,)
# Local epochs of the best task without sharing, beside those that the scenario allows.
_USUAL_EPOCHS = (1, 2, 3, 5, 8)
# Learning rates tried for it in the range of the fit.
_NUM_RATES = 7


def baselines(search: Search) -> tuple[Baseline | None, Baseline | None]:
    """Return the tasks without sharing as given (of several local epochs the smallest) and at its best.

    The best are the fastest local epochs, of the scenario's and the usual ones, and the fastest learning rate in
    the range of the fit. None: the target is not reachable.
    """
    scenario = search.world.scenario
    given_rate = scenario.training.learning_rate
    given = search.alone(search.choices[0])
    as_given = None if given is None else Baseline(search.choices[0], given_rate, given.rounds, given.objective_s)
    if search.rounds.form != "law":
        return as_given, as_given
    law = search.fit.law(search.rounds.target_accuracy)
    rates = [given_rate, *np.geomspace(*law.rate_range, _NUM_RATES).tolist()]
    models = {rate: law.model(search.fit.name, rate) for rate in rates}
    found = [as_given] if as_given is not None else []
    for epochs in search.in_time(tuple(sorted({*search.choices, *_USUAL_EPOCHS}))):
        if (alone := search.alone(epochs)) is None:
            continue
        for rate, model in models.items():
            betas = model.draw(scenario.rounds.beta_samples, alone.skew, scenario.seed, alone.steps)
            rounds = betas.expected(alone.skew, alone.shift, alone.steps).rounds
            if rounds <= model.max_rounds:
                found.append(Baseline(epochs, rate, rounds, rounds * alone.round_s))
    delay_s = attrgetter("delay_s")
    best = min(found, key=delay_s, default=None)
    if best is not None and best.learning_rate != given_rate:
        at_given = min((one for one in found if one.learning_rate == given_rate), key=delay_s, default=None)
        if at_given is None or at_given.delay_s > best.delay_s * (1 + NOTEWORTHY):
            search.notes.append(
                f"training.learning_rate = {given_rate:g}: without sharing {best.learning_rate:.3g} is expected to "
                "be the best; try it before you share"
            )
    return as_given, best


def baseline_delay(baseline: Baseline, world: World) -> Delay:
    """Return the parts of a baseline's delay, in the world of its plan: all users with samples train that can upload.

    Example:
        >>> from fedcast.plan import make_plan, make_world
        >>> from fedcast.scenario import load_scenario
        >>> world = make_world(load_scenario(overrides=["clustering.rule=gain", "training.local_epochs=1"]))
        >>> baseline = make_plan(world.scenario, world=world, with_curve=False).best_without
        >>> delay = baseline_delay(baseline, world)
        >>> delay.sharing_s, abs(delay.total_s / baseline.delay_s - 1) < 1e-9
        (0.0, True)
    """
    fleet, sizes = replace(world.fleet, local_epochs=baseline.local_epochs), world.skew.sizes
    trained = feasibility(fleet, np.maximum(sizes, 1.0)).feasible & (sizes > 0)
    phases = round_cost(fleet.of(trained), sizes[trained]).expected_phases_s
    return Delay(0.0, *(baseline.rounds * phase for phase in phases))


def leakage_curve(search: Search, best: Candidate) -> tuple[LeakagePoint, ...]:
    """Return the least delay under limits on the average sharing ratio, for the clusters of a plan and raw samples.

    It is the envelope over local epochs: at each limit those of the plan, those that are best without sharing, and
    all between are tried. A larger limit never gives a longer delay, since less may always be shared. Limits are
    parts of the plan's average sharing ratio.
    """
    raw = search if (reveals(search.world) & (search.worth == 1)).all() else _sending(search, RAW)
    first = search.best_alone()
    ends = sorted((best.local_epochs, first))
    shares = _CURVE_SHARES_OF_MANY if search.many else _CURVE_SHARES
    limits = [share * best.result.average_sharing_ratio for share in (*shares, *([] if raw is search else [1.0]))]
    between = [
        raw.at(best.rule, best.result.clustering, epochs, limit)
        for limit in limits
        if limit
        for epochs in search.choices
        if ends[0] <= epochs <= ends[1]
    ]
    results = [candidate.result for candidate in between if candidate is not None]
    return _envelope([*filter(None, [search.alone(first)]), *results, *([best.result] if raw is search else [])])


def _envelope(results: Sequence[AllocationResult]) -> tuple[LeakagePoint, ...]:
    """Return the points, by ascending average sharing ratio, that no other beats in both delay and sharing."""
    ascending = sorted(results, key=lambda result: (result.average_sharing_ratio, result.objective_s))
    points: list[LeakagePoint] = []
    for result in ascending:
        if not points or result.objective_s < points[-1].delay_s:
            points.append(LeakagePoint(result.average_sharing_ratio, result.objective_s))
    return tuple(points)


def privacy_curve(search: Search, best: Candidate) -> tuple[PrivacyPoint, ...]:
    """Return the delay if the heads of a plan send samples with differential privacy, against ε.

    At each ε the private kind is taken whose samples are worth most on average, at the local epochs of the plan;
    who cannot afford it sends nothing. A larger ε that is no faster is left out, since less may always be spent.
    Empty: the fit does not say what such samples are worth, or nobody may send them.
    """
    kinds, heads = known_kinds(search.world, search.rounds), best.result.clustering.heads
    alone = search.alone(best.local_epochs)
    if not kinds or not len(heads):
        return ()
    points = [] if alone is None else [PrivacyPoint(0.0, alone.objective_s, "none")]
    for epsilon in _CURVE_EPSILONS_OF_MANY if search.many else _CURVE_EPSILONS:
        searches = {kind: _sending(search, kind, epsilon) for kind in kinds}
        kind = max(kinds, key=lambda kind: float(searches[kind].worth[heads].mean()))
        found = searches[kind].at(best.rule, best.result.clustering, best.local_epochs)
        if found is not None and (not points or delay_of(found) < points[-1].delay_s):
            points.append(PrivacyPoint(epsilon, delay_of(found), kind))
    return tuple(points)


def _sending(search: Search, kind: str, epsilon: float | None = None) -> Search:
    """Return the search of the same world in which all users send one kind, at ε of the scenario or another one."""
    return Search(with_kinds(search.world, np.full(search.world.skew.num_users, kind), epsilon), epsilon)
