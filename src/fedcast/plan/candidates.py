"""Candidates for a plan, and what is said of them: their delays, and the comparison of rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedcast.allocation import AllocationResult
from fedcast.formatting import percent, quantity
from fedcast.plan.sharing_plan import RuleOutcome

# A share by which something is faster that deserves a note.
NOTEWORTHY = 0.02


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rule with its best local epochs, clusters and volumes."""

    rule: str
    local_epochs: int
    result: AllocationResult
    passes: int = 1


def delay_of(candidate: Candidate) -> float:
    """Return the delay of the task, s."""
    return candidate.result.objective_s


def chosen_by_itself(candidate: Candidate | None) -> bool:
    """Return whether a plan may choose it; a broadcast is only shown, since the server must first have the samples."""
    return candidate is not None and candidate.result.clustering.broadcast is None


def faster_rule(best: Candidate, others: Iterable[Candidate | None]) -> list[str]:
    """Return a note if another rule is faster by more than the noteworthy share."""
    fastest = min(filter(None, others), key=delay_of, default=best)
    if delay_of(best) <= delay_of(fastest) * (1 + NOTEWORTHY):
        return []
    delay_s, instead_s = delay_of(fastest), delay_of(best)
    saved = 1 - delay_s / instead_s
    return [
        f"rule {fastest.rule} is {percent(saved)} faster than {best.rule}: {quantity(delay_s, 's')} instead of "
        f"{quantity(instead_s, 's')}; best chooses the fastest (clustering.rule)"
    ]


def outcome_of(rule: str, candidate: Candidate | None) -> RuleOutcome:
    """Return what is shown of the best candidate of a rule; None: the target is not reachable."""
    if candidate is None:
        return RuleOutcome(rule)
    result = candidate.result
    return RuleOutcome(
        rule, candidate.local_epochs, result.rounds, result.objective_s, result.clustering.average_sharing_ratio
    )
