"""What changed from one plan to another, user by user and as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.heterogeneity import Ints
from fedcast.plan.result import SharingPlan

_LISTED = 8


@dataclass(frozen=True, eq=False)
class PlanDiff:
    """The difference of two plans; users are told apart by their ids.

    Attributes:
        old: the plan before.
        new: the plan after.
        joined: ids that only the new plan has.
        left: ids that only the old plan has.
        new_heads: users that became heads.
        former_heads: users that stopped being heads.
        moved: users whose head is another one, or none any more, or the first.
        volumes: heads of both plans that share another number of samples.
    """

    old: SharingPlan
    new: SharingPlan
    joined: Ints
    left: Ints
    new_heads: Ints
    former_heads: Ints
    moved: Ints
    volumes: Ints

    @property
    def same(self) -> bool:
        """Whether every user does the same as before."""
        parts = (self.joined, self.left, self.new_heads, self.former_heads, self.moved, self.volumes)
        return not any(len(part) for part in parts)

    def lines(self) -> list[str]:
        """The difference for a person."""
        named = {
            "joined": self.joined,
            "left": self.left,
            "became heads": self.new_heads,
            "are heads no more": self.former_heads,
            "have another head": self.moved,
            "share another volume": self.volumes,
        }
        lines = [f"{len(users):,} users {what}: {_few(users)}" for what, users in named.items() if len(users)]
        if not lines:
            lines = ["every user does the same as before"]
        return lines + [_change(*row) for row in self._figures()]

    def _figures(self) -> list[tuple[str, float, float, str]]:
        old, new = self.old, self.new
        return [
            ("delay of the task", old.delay.total_s, new.delay.total_s, "s"),
            ("expected rounds", old.rounds, new.rounds, ""),
            ("average EMD after sharing", old.emd_after, new.emd_after, ""),
            ("average sharing ratio", old.average_sharing_ratio, new.average_sharing_ratio, ""),
            ("energy of a round", float(old.energy_j.sum()), float(new.energy_j.sum()), "J"),
        ]


def diff_plans(old: SharingPlan, new: SharingPlan) -> PlanDiff:
    """Compare two plans.

    Example:
        >>> from fedcast.plan import make_plan
        >>> from fedcast.scenario import Scenario
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> diff_plans(plan, plan).lines()[0]
        'every user does the same as before'
    """
    both = min(old.num_users, new.num_users)
    heads = np.intersect1d(old.heads, new.heads)
    return PlanDiff(
        old,
        new,
        joined=np.arange(both, new.num_users),
        left=np.arange(both, old.num_users),
        new_heads=np.setdiff1d(new.heads, old.heads),
        former_heads=np.setdiff1d(old.heads, new.heads),
        moved=np.flatnonzero(old.head_of[:both] != new.head_of[:both]),
        volumes=heads[old.shared[heads] != new.shared[heads]],
    )


def _few(users: Ints) -> str:
    shown = ", ".join(str(user) for user in users[:_LISTED])
    return shown + (f" … and {len(users) - _LISTED:,} more" if len(users) > _LISTED else "")


def _change(name: str, before: float, after: float, unit: str) -> str:
    percent = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return f"{name}: {before:,.4g} → {after:,.4g} {unit}".rstrip() + percent
