"""Cost of a whole task, and the metrics that plans, run folders, comparisons and reports read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.cost.fleet import Fleet
from fedcast.cost.multicast import SharingCost
from fedcast.cost.round import RoundCost, round_cost
from fedcast.data import Skew, Weighting, average_emd, average_js, distribution_shift
from fedcast.errors import FedcastError
from fedcast.typing import Floats


@dataclass(frozen=True, eq=False)
class TaskCost:
    """Cost of sharing, once, and of every round of the users that train, in the order of their ids."""

    sharing: SharingCost
    round: RoundCost

    @property
    def round_j(self) -> float:
        """Return the energy of all users in a round."""
        return float(self.round.energy_j.sum())

    @property
    def round_bytes(self) -> float:
        """Return the bytes sent in a round, both ways."""
        return self.round.uploaded_bytes + self.round.broadcast_bytes


def task_cost(
    sharing: SharingCost, fleet: Fleet, samples: Floats, trained: NDArray[np.bool_] | None = None
) -> TaskCost:
    """Return the cost of sharing and of a round at the best frequencies.

    `fleet` and `samples` (after sharing) are of all K users; `trained` says who trains (None: all).
    """
    users = np.ones(len(samples), dtype=bool) if trained is None else trained
    return TaskCost(sharing, round_cost(fleet.of(users), samples[users]))


def task_s(sharing_s: float, round_s: float, rounds: float) -> float:
    r"""Return the delay of a whole task, :math:`\tau^s + T \tau`.

    Example:
        >>> task_s(sharing_s=1.0, round_s=3.0, rounds=10)
        31.0
    """
    if not rounds > 0:
        raise FedcastError(f"invalid value {rounds} for rounds: expected a number > 0")
    return sharing_s + rounds * round_s


@dataclass(frozen=True)
class Delay:
    """Delay of a whole task by phase: sharing, and all rounds as their critical user sees them."""

    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float

    @property
    def total_s(self) -> float:
        """Return the delay of the task."""
        return self.sharing_s + self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True, eq=False, kw_only=True)
class Metrics:
    """Skew, leakage and cost of a plan; averages over users are over those that train.

    Attributes:
        emd_before: average EMD before sharing.
        emd_after: the same after sharing, in the scenario's weighting; expected over the samples that a head draws.
        js_before: mean JS divergence before sharing, nats.
        js_after: the same after sharing.
        shift: L1 distance of the label distribution of the users that train, after sharing, from the global one.
        average_sharing_ratio: the paper's measure of leakage.
        sharing_s: delay of sharing, once.
        download_s: of a round of all users that train, as its critical user sees it; likewise the next two.
        sharing_j: energy of all heads for sharing.
        round_j: energy of all users in a round.
        sharing_bytes: bytes on the air for sharing.
        round_bytes: bytes of a round, both ways.
    """

    emd_before: float
    emd_after: float
    js_before: float
    js_after: float
    shift: float
    average_sharing_ratio: float
    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float
    sharing_j: float
    round_j: float
    sharing_bytes: float
    round_bytes: float

    @property
    def round_s(self) -> float:
        """Return the delay of a round."""
        return self.download_s + self.compute_s + self.upload_s

    def delay_of(self, rounds: float) -> Delay:
        """Return the delay of a task of that many rounds."""
        return Delay(self.sharing_s, rounds * self.download_s, rounds * self.compute_s, rounds * self.upload_s)


def metrics_of(
    before: Skew, after: Skew, weighting: Weighting, average_sharing_ratio: float, cost: TaskCost
) -> Metrics:
    """Return the metrics of users that train, from what they hold before and after sharing."""
    download_s, compute_s, upload_s = cost.round.phases_s
    return Metrics(
        emd_before=average_emd(before),
        emd_after=average_emd(before, after, weighting),
        js_before=average_js(before),
        js_after=average_js(before, after, weighting),
        shift=distribution_shift(after),
        average_sharing_ratio=average_sharing_ratio,
        sharing_s=cost.sharing.sharing_s,
        download_s=download_s,
        compute_s=compute_s,
        upload_s=upload_s,
        sharing_j=float(cost.sharing.energy_j.sum()),
        round_j=cost.round_j,
        sharing_bytes=cost.sharing.sent_bytes,
        round_bytes=cost.round_bytes,
    )
