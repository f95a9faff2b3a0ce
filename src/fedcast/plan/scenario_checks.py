"""Checks of a scenario before it is planned: whether rounds must be predicted, and notes."""

from __future__ import annotations

from fedcast.clustering import allocates, uses_method
from fedcast.cost import RoundCost
from fedcast.formatting import number, pluralize, quantity
from fedcast.rounds import fit_notes
from fedcast.scenario import BEST_KIND, BEST_RULE, Scenario


def needs_rounds(scenario: Scenario) -> bool:
    """Return whether planning needs a fit that covers the scenario.

    A fixed ratio needs no prediction to choose volumes, and rule `none` chooses none. The best kind of sharing is
    chosen by the prediction.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> needs_rounds(Scenario()), needs_rounds(load_scenario(overrides=["clustering.rule=none"]))
        (True, False)
    """
    rule = scenario.clustering.rule
    if rule == BEST_RULE or (scenario.sharing.kind == BEST_KIND and allocates(rule)):
        return True
    return scenario.allocation.method != "fixed" and uses_method(rule)


def scenario_notes(scenario: Scenario) -> tuple[str, ...]:
    """Return what to know before a scenario is planned or trained: about its fit, and a ratio above the limit."""
    return (*fit_notes(scenario), *ratio_notes(scenario))


def ratio_notes(scenario: Scenario) -> tuple[str, ...]:
    """Return a note if a fixed ratio is above the limit of every head.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> print(*ratio_notes(load_scenario(overrides=["allocation.method=fixed", "allocation.fixed.ratio=1.0"])))
        allocation.fixed.ratio = 1, but heads share at most allocation.max_sharing_ratio = 0.2: 0.2 is used; raise that
        limit to share more
    """
    settings, rule = scenario.allocation, scenario.clustering.rule
    if settings.method != "fixed" or not (rule == BEST_RULE or uses_method(rule)):
        return ()
    ratio, limit = settings.options("allocation").ratio, settings.max_sharing_ratio
    if ratio <= limit:
        return ()
    return (
        f"allocation.fixed.ratio = {ratio:g}, but heads share at most allocation.max_sharing_ratio = {limit:g}: "
        f"{limit:g} is used; raise that limit to share more",
    )


def attendance_notes(cost: RoundCost) -> list[str]:
    """Return what deadlines, over-selection and asynchronous training make of a round, and what is not predicted."""
    found = cost.expected
    if found is None or cost.draws is None:
        return []
    settings, count = cost.draws.participation, len(cost.user_s)
    if settings.buffer_size is not None:
        return [
            f"asynchronous training: a round is a step of the server with {settings.buffer_size} updates; it takes "
            f"{quantity(found.seconds, 's')} on average, and its updates are {number(found.staleness or 0.0)} steps old"
        ]
    said = [f"{number(found.counted)} of {number(found.trainings.sum())} updates count in a round on average"]
    if settings.deadline_s is not None and (late := int((cost.user_s > settings.deadline_s).sum())):
        said.append(f"{pluralize(late, 'user')} of {count} always take longer than training.deadline_s and never count")
    return [f"{'; '.join(said)}; rounds are predicted as if all updates did"]
