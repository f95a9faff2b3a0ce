"""What a plan says: what every user is to do, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.rounds import FormName, MeasureName
from fedcast.scenario import Scenario
from fedcast.typing import Floats, Ints, Names


@dataclass(frozen=True)
class Delay:
    """How the time of the whole task is spent, in seconds; rounds as the critical user sees them.

    Attributes:
        sharing_s: once.
        download_s: over all rounds.
        compute_s: over all rounds.
        upload_s: over all rounds.
    """

    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.sharing_s + self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True)
class LeakagePoint:
    """What a limit on the average sharing ratio costs in time."""

    average_sharing_ratio: float
    delay_s: float


@dataclass(frozen=True, eq=False)
class SharingPlan:
    """What every user is to do, and what comes of it.

    Attributes:
        scenario: that it was made for.
        head_of: int64[K], the head of each user; -1: none.
        shared: int64[K], samples that each head sends to each of its members, at least one.
        frequency_hz: float64[K], CPU frequency of each user; 0: it does not train.
        energy_j: float64[K], energy of each user per round.
        composition: what heads send: own (a random part) or balanced (as equal over classes as they can).
        emd_before: average EMD before sharing, here and below of those who train.
        emd_after: the same after sharing, in the scenario's weighting.
        js_before: mean JS divergence before, nats.
        js_after: the same after.
        shift: how far their overall mixture is from that of all data.
        rounds: expected rounds to the target accuracy.
        rounds_without: the same without sharing.
        delay: of the whole task.
        delay_without_s: of the whole task without sharing.
        sharing_j: energy that heads spend on sharing.
        sharing_bytes: bytes on the air while sharing.
        round_bytes: bytes of one round, both ways.
        average_sharing_ratio: the leakage.
        leakage: delay against leakage.
        passes: how often clustering and allocation were repeated.
        fit: name of the rounds fit.
        form: shape of rounds against skew that was used of it.
        measure: the skew that it is a function of: emd, js or kl.
        names: str[K], of the users, where a table gives them names.
    """

    scenario: Scenario
    head_of: Ints
    shared: Ints
    frequency_hz: Floats
    energy_j: Floats
    composition: str
    emd_before: float
    emd_after: float
    js_before: float
    js_after: float
    shift: float
    rounds: float
    rounds_without: float
    delay: Delay
    delay_without_s: float
    sharing_j: float
    sharing_bytes: float
    round_bytes: float
    average_sharing_ratio: float
    leakage: tuple[LeakagePoint, ...]
    passes: int
    fit: str
    form: FormName
    measure: MeasureName
    names: Names | None = None

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.head_of)

    @property
    def heads(self) -> Ints:
        """Users that share, ascending."""
        return np.unique(self.head_of[self.head_of >= 0])

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Who trains, bool[K]."""
        return self.frequency_hz > 0

    @property
    def speed_up(self) -> float:
        """How many times sooner the task ends than without sharing."""
        return self.delay_without_s / self.delay.total_s
