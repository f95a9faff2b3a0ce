"""The expected round of a fleet whose users are sampled, drop out, miss deadlines or train asynchronously.

It is the mean over rounds with the draws that training makes, so that a plan costs the rounds that are trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from fedcast.participation import Attendance, Participation, buffered_steps, judged, participants
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class Draws:
    """Settings of participation, and the seed and number of the rounds that are averaged."""

    participation: Participation
    seed: int
    rounds: int


@dataclass(frozen=True)
class ExpectedRound:
    """Means over rounds, or over steps of asynchronous training."""

    seconds: float  #: duration
    counted: float  #: users whose updates count
    missed: float  #: users that miss the deadline
    surplus: float  #: users that finish after as many others as the round needs
    dropped_out: float  #: invited users that do not answer
    staleness: float | None  #: steps between start and use of an update; None in rounds
    trainings: Floats  #: float64[K], how often each user trains, whether its update counts or not


def expected_round(draws: Draws, user_s: Floats) -> ExpectedRound:
    """Return the expected round of users that take so long, float64[K] of those that train.

    Example:
        >>> in_time = Draws(Participation(deadline_s=2.5), seed=0, rounds=10)
        >>> found = expected_round(in_time, np.array([1.0, 2.0, 3.0]))
        >>> found.seconds, found.counted, found.missed
        (2.5, 2.0, 1.0)
    """
    settings, count = draws.participation, len(user_s)
    found: list[Attendance]
    if settings.buffer_size is not None:
        found = list(islice(buffered_steps(np.arange(count), settings, set(), user_s, seed=draws.seed), draws.rounds))
    else:
        needed = settings.needed(count)
        found = [judged(*answers, settings, needed, user_s) for answers in _invitations(draws, count)]
    trainings = np.bincount(np.concatenate([one.trained for one in found]), minlength=count) / len(found)
    late = [one.staleness for one in found if one.staleness is not None]
    return ExpectedRound(
        seconds=float(np.mean([one.seconds for one in found])),
        counted=float(np.mean([len(one.users) for one in found])),
        missed=float(np.mean([len(one.late) for one in found])),
        surplus=float(np.mean([len(one.surplus) for one in found])),
        dropped_out=float(np.mean([one.dropped_out for one in found])),
        staleness=float(np.concatenate(late).mean()) if late and any(map(len, late)) else None,
        trainings=trainings,
    )


@lru_cache(maxsize=8)
def _invitations(draws: Draws, count: int) -> tuple[tuple[Ints, int], ...]:
    """Return who answers in each round; a search asks for the same users at other times again and again."""
    users, numbers = np.arange(count), range(1, draws.rounds + 1)
    return tuple(
        participants(users, draws.participation, set(), seed=draws.seed, round_number=number) for number in numbers
    )
