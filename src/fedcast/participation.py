"""Participation in rounds, and their length: invitations, dropouts, deadlines, asynchronous steps.

Training and the cost model read the same functions, so that a plan costs the rounds that are trained. All draws are
functions of (seed, purpose, round, user); times of users are plain numbers. Needs NumPy alone.

Without a buffer, training is in rounds: the server invites users, those that do not drop out train, and the round ends
when enough updates have arrived or at the deadline, measured from the start of the round. With a buffer it is
asynchronous, FedBuff (Nguyen et al. 2022, Algorithm 1): a number of users train at any time, each from the weights of
when it was invited, and the server takes a step with every `buffer_size` updates that arrive.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fedcast.errors import FedcastError
from fedcast.random import generator, user_uniform
from fedcast.typing import Floats, Ints

Pairs = set[tuple[int, int]]

# Least and most of each number; the limits themselves are allowed unless they stand in `_OPEN`.
_RANGES: dict[str, tuple[float, float]] = {
    "participation": (0, 1), "over_selection": (0, math.inf), "dropout_probability": (0, 1),
    "deadline_s": (0, math.inf), "buffer_size": (1, math.inf), "concurrency": (1, math.inf),
    "staleness_exponent": (0, math.inf),
}  # fmt: skip
_OPEN = {("participation", 0), ("dropout_probability", 1), ("deadline_s", 0)}
# 1.3 · 10 users are 13, not 14 by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Participation:
    """Settings of participation, the fields of the same names in ``[training]``.

    Example:
        >>> Participation(participation=0.5, over_selection=0.3).invited(100)
        65
    """

    participation: float = 1.0  #: share of the users whose updates a round needs
    over_selection: float = 0.0  #: users invited beyond those, as a share of them
    dropout_probability: float = 0.0  #: chance that an invited user does not answer
    deadline_s: float | None = None  #: updates that arrive later do not count; None: none does
    buffer_size: int | None = None  #: updates of an asynchronous step; None: training is in rounds
    concurrency: int | None = None  #: users that train at the same time; None: the share of `participation`
    staleness_exponent: float = 0.5  #: an update that is τ steps old weighs (1 + τ)^(−exponent)

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            inside = value is None or (least <= value <= most and math.isfinite(value) and (name, value) not in _OPEN)
            if not inside:
                low = f"{'>' if (name, least) in _OPEN else '>='} {least}"
                high = "" if most == math.inf else f" and {'<' if (name, most) in _OPEN else '<='} {most}"
                raise FedcastError(f"invalid value {value!r} for training.{name}: expected a number {low}{high}")
        if self.buffer_size is None:
            for name in ("concurrency", "staleness_exponent"):
                if getattr(self, name) != getattr(Participation, name):
                    raise FedcastError(f"training.{name}: only asynchronous training has it; set training.buffer_size")
            return
        for name in ("deadline_s", "over_selection"):
            if getattr(self, name) != getattr(Participation, name):
                raise FedcastError(
                    f"training.{name}: asynchronous training has no rounds that could end early; unset it, or "
                    "training.buffer_size"
                )
        if self.concurrency is not None and self.participation < 1:
            raise FedcastError(
                "training.concurrency and training.participation both say how many users train at the same time; "
                "set one of them"
            )

    @property
    def reads_clock(self) -> bool:
        """Return whether the time that each user takes decides who counts."""
        return self.deadline_s is not None or self.over_selection > 0 or self.buffer_size is not None

    def needed(self, able: int) -> int:
        """Return how many updates a round needs, of so many users that hold samples: at least one."""
        return max(1, round(self.participation * able)) if self.participation < 1 else able

    def invited(self, able: int) -> int:
        """Return how many users are invited in a round."""
        return math.ceil(self.needed(able) * (1 + self.over_selection) - _ROUNDING)

    def training_at_once(self, able: int) -> int:
        """Return how many users train at the same time in asynchronous training."""
        return self.needed(able) if self.concurrency is None else self.concurrency

    def check(self, able: int) -> None:
        """Raise an error if more users are wanted than there are, `able` of them."""
        if (invited := self.invited(able)) > able:
            needed = self.needed(able)
            raise FedcastError(
                f"invalid value {self.over_selection:g} for training.over_selection: {invited} users would be invited, "
                f"and {able} hold samples; expected at most {able / needed - 1:.3g}, or lower training.participation"
            )
        if self.concurrency is not None and self.concurrency > able:
            raise FedcastError(
                f"invalid value {self.concurrency} for training.concurrency: {able} users hold samples; expected at "
                f"most {able}"
            )

    def check_times(self, user_s: Floats) -> None:
        """Raise an error if the deadline is shorter than the time of every user, float64[K] of those that train."""
        if self.deadline_s is not None and self.deadline_s < (fastest := float(user_s.min())):
            raise FedcastError(
                f"invalid value {self.deadline_s:g} for training.deadline_s: every user takes longer, the fastest "
                f"{fastest:.4g} s; expected more than that, or fewer training.local_epochs"
            )

    def check_algorithm(self, name: object, algorithm: Any) -> None:
        """Raise an error if training is asynchronous and the algorithm needs all updates of one round."""
        if self.buffer_size is not None and any((algorithm.collect, algorithm.change, algorithm.local_context)):
            raise FedcastError(
                f"training.algorithm = {name}: it reads the updates or states of one round, and asynchronous training "
                "has none; unset training.buffer_size, or choose one that averages updates, as fedavg does"
            )

    def staleness_weight(self, staleness: Ints) -> Floats:
        """Return the weight of updates that are so many steps old, float64 of the same shape."""
        weight: Floats = np.power(1.0 + staleness, -self.staleness_exponent, dtype=np.float64)
        return weight


def participation_of(settings: Any) -> Participation:
    """Return the fields of a scenario's section ``training``, or of settings with the same names."""
    return Participation(**{item.name: getattr(settings, item.name) for item in fields(Participation)})


def _nobody() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Attendance:
    """Users of one round or asynchronous step, and what became of those that were invited."""

    users: Ints  #: whose updates count; ascending in a round, in the order of arrival in a step
    late: Ints = field(default_factory=_nobody)  #: missed the deadline, ascending
    surplus: Ints = field(default_factory=_nobody)  #: were not among the first that the round needed, ascending
    dropped_out: int = 0  #: invited users that did not answer
    seconds: float | None = None  #: duration; None: the slowest of `users`
    staleness: Ints | None = None  #: steps between invitation and arrival of each update; None in rounds

    @property
    def trained(self) -> Ints:
        """Return all users that spent energy and sent an update, whether it counts or not."""
        return np.concatenate([self.users, self.late, self.surplus])


def participants(
    able: Ints, settings: Participation, dropped: Pairs, *, seed: int, round_number: int
) -> tuple[Ints, int]:
    """Return the invited users of a round that answer, ascending, and how many do not.

    Users drop out by chance, or in pairs (round, user) of `dropped`. `able` are the ids of those with samples.

    Example:
        >>> participants(np.array([0, 2]), Participation(), {(2, 2)}, seed=0, round_number=2)
        (array([0]), 1)
    """
    asked = able
    if (count := settings.invited(len(able))) < len(able):
        rng = generator(seed, "participants", round=round_number)
        asked = np.sort(rng.choice(able, count, replace=False))
    absent = _absent(asked, settings, dropped, seed, f"dropout/{round_number}", round_number)
    return asked[~absent], int(absent.sum())


def _absent(asked: Ints, settings: Participation, dropped: Pairs, seed: int, purpose: str, number: int) -> Any:
    """Return which users do not answer, bool[U]."""
    absent = np.zeros(len(asked), dtype=bool)
    if dropped:
        absent = np.array([(number, int(user)) in dropped for user in asked], dtype=bool)
    if settings.dropout_probability:
        absent |= user_uniform(seed, purpose, asked) < settings.dropout_probability
    return absent


def attend(
    able: Ints, settings: Participation, dropped: Pairs, user_s: Floats, *, seed: int, round_number: int
) -> Attendance:
    """Return who takes part in a round: of the users that answer, the first that are needed, if they meet the deadline.

    The round ends with the last update that is needed; if too few come, at the deadline, or when all have come. A user
    that drops out does not answer at the start, so that nobody waits for it.

    Args:
        able: ids of the users with samples, ascending.
        settings: of participation.
        dropped: pairs (round, user) that drop out.
        user_s: float64[K], time of each user in a round; not read if the settings do not depend on it.
        seed: of all draws.
        round_number: from 1.

    Example:
        >>> quick_four = Participation(participation=0.8, over_selection=0.25, deadline_s=5.0)
        >>> times = np.array([1.0, 4.0, 2.0, 6.0, 3.0])
        >>> found = attend(np.arange(5), quick_four, set(), times, seed=0, round_number=1)
        >>> found.users.tolist(), found.late.tolist(), found.seconds
        ([0, 1, 2, 4], [3], 4.0)
    """
    answered, absent = participants(able, settings, dropped, seed=seed, round_number=round_number)
    if not settings.reads_clock:
        return Attendance(answered, dropped_out=absent)
    return judged(answered, absent, settings, settings.needed(len(able)), user_s)


def judged(answered: Ints, absent: int, settings: Participation, needed: int, user_s: Floats) -> Attendance:
    """Return a round by the time that users take who answered, ascending; `absent` of them did not."""
    deadline, times = settings.deadline_s, user_s[answered]
    in_time = np.full(len(answered), True) if deadline is None else times <= deadline
    # Of users that finish at the same time the one with the smaller id is first.
    order = np.argsort(np.where(in_time, times, np.inf), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    counts = in_time & (place < needed)
    seconds = float(times[counts].max(initial=0.0))
    if deadline is not None and counts.sum() < needed and not in_time.all():
        seconds = deadline
    return Attendance(answered[counts], answered[~in_time], answered[in_time & ~counts], absent, seconds)


@dataclass(frozen=True, eq=False)
class BufferedStep(Attendance):
    """One asynchronous step: with `users` the step whose weights each started from, and what is still in flight."""

    versions: Ints = field(default_factory=_nobody)  #: steps that had been taken when each user was invited
    repeats: Ints = field(default_factory=_nobody)  #: how often each had been invited in that version before
    in_flight: tuple[int, ...] = ()  #: versions that users still train from after the step, ascending


def buffered_steps(
    able: Ints, settings: Participation, dropped: Pairs, user_s: Floats, *, seed: int
) -> Iterator[BufferedStep]:
    """Yield the steps of asynchronous training without end: an event queue of users that train.

    Whenever users have arrived, as many are invited, at random among those that are idle; the buffer is emptied first,
    so that they start from the newest weights. Who does not answer is replaced by another. If nobody is in flight and
    nobody answers, a step passes without an update.

    Example:
        >>> pairs = Participation(buffer_size=2, concurrency=3)
        >>> steps = buffered_steps(np.arange(3), pairs, set(), np.array([1.0, 2.0, 5.0]), seed=0)
        >>> [(step.users.tolist(), step.seconds, step.staleness.tolist()) for step, _ in zip(steps, range(3))]
        [([0, 1], 2.0, [0, 0]), ([0, 0], 1.0, [1, 0]), ([1, 0], 1.0, [1, 0])]
    """
    size, slots = settings.buffer_size, settings.training_at_once(len(able))
    assert size is not None, "asynchronous training has a buffer"
    queue: list[tuple[float, int, int, int, int]] = []  # (arrival, order of invitation, user, version, repeat)
    idle, times = np.full(len(able), True), dict(zip(able.tolist(), user_s[able].tolist(), strict=True))
    place = {user: index for index, user in enumerate(able.tolist())}
    now, last_step, version, absent, occasion, invited = 0.0, 0.0, 0, 0, 0, 0
    buffer: list[tuple[int, int, int]] = []
    starts: Counter[int] = Counter()  # of each user in the present version

    def step() -> BufferedStep:
        users, versions, repeats = np.array(buffer, dtype=np.int64).reshape(-1, 3).T
        return BufferedStep(
            users, dropped_out=absent, seconds=now - last_step, staleness=version - versions,
            versions=versions, repeats=repeats, in_flight=tuple(sorted({entry[3] for entry in queue})),
        )  # fmt: skip

    while True:
        occasion += 1
        candidates = able[idle]
        if len(candidates) > slots - len(queue):  # otherwise all of them are invited
            candidates = candidates[np.argsort(user_uniform(seed, f"arrivals/{occasion}", candidates), kind="stable")]
        away = _absent(candidates, settings, dropped, seed, f"dropout/arrivals/{occasion}", version + 1)
        for user, is_away in zip(candidates.tolist(), away.tolist(), strict=True):
            if len(queue) == slots:
                break
            if is_away:
                absent += 1
                continue
            invited += 1
            heapq.heappush(queue, (now + times[user], invited, user, version, starts[user]))
            starts[user] += 1
            idle[place[user]] = False
        if not queue:
            waiting = tuple(sorted({started for _, started, _ in buffer}))
            yield BufferedStep(_nobody(), dropped_out=absent, seconds=0.0, staleness=_nobody(), in_flight=waiting)
            version, starts, absent = version + 1, Counter(), 0
            continue
        now = queue[0][0]
        # All that arrive at the same time arrive before others are invited.
        while queue and queue[0][0] == now:
            _, _, user, started, repeat = heapq.heappop(queue)
            idle[place[user]] = True
            buffer.append((user, started, repeat))
            if len(buffer) == size:
                yield step()
                version, buffer, starts, absent, last_step = version + 1, [], Counter(), 0, now
