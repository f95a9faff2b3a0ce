"""Skew: distances between the distributions of users and the global distribution, before and after sharing.

Everything here is a function of sizes n_k and distributions P_k of any descriptor (see `fedcast.data.descriptors`):
classes, input values, feature clusters, next characters. Divergences are in nats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError, FedcastError
from fedcast.typing import Floats

Weighting = Literal["A", "B", "C"]


@dataclass(frozen=True)
class Skew:
    """Sizes and distributions of a population: everything that the planner uses of the data."""

    sizes: Floats  #: float64[K], number of samples n_k of each user
    distributions: Floats  #: float64[K, Y], P_k of each user; rows sum to 1. An empty user has the global distribution
    global_distribution: Floats  #: float64[Y], P_g of all data before sharing

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.sizes)

    @property
    def emd(self) -> Floats:
        """EMD of each user, float64[K]."""
        return emd(self.distributions, self.global_distribution)


def skew_of(counts: ArrayLike) -> Skew:
    """Return the skew of a table [K, Y]: samples of each user and class, or of another descriptor.

    A user without data gets the global distribution, with weight 0.

    Example:
        >>> skew = skew_of([[4, 0], [2, 2], [0, 0]])
        >>> skew.global_distribution.tolist()
        [0.75, 0.25]
        >>> skew.emd.tolist()
        [0.5, 0.5, 0.0]
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise DataError(f"invalid counts of shape {table.shape}: expected a table of users by classes")
    if not np.isfinite(table).all() or (table < 0).any():
        user, column = np.argwhere(~(table >= 0) | ~np.isfinite(table))[0]
        raise DataError(f"invalid count {table[user, column]} of user {user}, class {column}: expected a number >= 0")
    sizes = table.sum(axis=1)
    total = sizes.sum()
    if total == 0:
        raise DataError("no user holds any data: every count is 0")
    overall = table.sum(axis=0) / total
    distributions = np.divide(table, sizes[:, None], out=np.tile(overall, (len(table), 1)), where=sizes[:, None] > 0)
    return Skew(sizes, distributions, overall)


def emd(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    r"""Return the EMD as the paper defines it, the L1 distance, in [0, 2].

    .. math:: D_{EMD}(k) = \sum_y |P_k(y) - P_g(y)|

    It is twice the optimal transport cost if moving between any two classes costs 1. Unlike
    ``scipy.stats.wasserstein_distance`` it does not depend on the order of the classes.

    Example:
        >>> emd([[1.0, 0.0], [0.5, 0.5]], [0.5, 0.5]).tolist()
        [1.0, 0.0]
    """
    distance: Floats = np.abs(np.asarray(distributions) - np.asarray(global_distribution)).sum(axis=-1)
    return distance


def kl_divergence(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    r"""Return the Kullback–Leibler divergence of the distributions from the global one, in nats; 0 ln 0 = 0.

    .. math:: KL(P_k \,\|\, P_g) = \sum_y P_k(y) \ln \frac{P_k(y)}{P_g(y)}

    Example:
        >>> kl_divergence([1.0, 0.0], [0.5, 0.5]).round(6).item()
        0.693147
    """
    p, q = np.broadcast_arrays(np.asarray(distributions, float), np.asarray(global_distribution, float))
    if ((p > 0) & (q == 0)).any():
        raise DataError("KL is infinite: a user has a class with probability 0 in the global distribution")
    divergence: Floats = _p_log_ratio(p, q).sum(axis=-1)
    return divergence


def js_divergence(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    """Return the Jensen–Shannon divergence in nats, in [0, ln 2]: the mean KL of both to their midpoint, not its root.

    Example:
        >>> js_divergence([1.0, 0.0], [0.0, 1.0]).round(6).item()
        0.693147
    """
    p, q = np.asarray(distributions, float), np.asarray(global_distribution, float)
    middle = (p + q) / 2
    divergence: Floats = (_p_log_ratio(p, middle).sum(axis=-1) + _p_log_ratio(q, middle).sum(axis=-1)) / 2
    return divergence


def _p_log_ratio(p: Floats, q: Floats) -> Floats:
    ratio = np.divide(p, q, out=np.ones(np.broadcast(p, q).shape), where=p > 0)
    return p * np.log(ratio)


def mix_distributions(skew: Skew, head_of: ArrayLike, shared: ArrayLike, sent: ArrayLike | None = None) -> Skew:
    r"""Return the skew after every head has sent `shared` samples to each of its members.

    A member k of head m then has size and distribution

    .. math:: \tilde n_k = n_k + n_m^s, \qquad \tilde P_k = (n_k P_k + n_m^s q_m) / \tilde n_k

    Heads and users without a head are unchanged. The global distribution remains the one before sharing.

    Args:
        skew: skew before sharing.
        head_of: int[K], the head of each user, or -1.
        shared: float[K], number of samples n^s that user k sends to each member if it is a head.
        sent: float[K, Y], distribution q_k of the samples that user k sends; None: its own distribution P_k.

    Example:
        >>> before = skew_of([[4, 0], [2, 2]])
        >>> mix_distributions(before, [1, -1], [0, 2]).distributions[0].round(3).tolist()
        [0.833, 0.167]
    """
    heads = np.asarray(head_of, dtype=np.int64)
    volumes = np.asarray(shared, dtype=np.float64)
    sent_rows = skew.distributions if sent is None else np.asarray(sent, dtype=np.float64)
    members = np.flatnonzero(heads >= 0)
    members = members[volumes[heads[members]] > 0]
    received = volumes[heads[members]]
    sizes, distributions = skew.sizes.copy(), skew.distributions.copy()
    sizes[members] += received
    own = skew.sizes[members, None] * skew.distributions[members]
    distributions[members] = (own + received[:, None] * sent_rows[heads[members]]) / sizes[members, None]
    return Skew(sizes, distributions, skew.global_distribution)


def weights(before: Skew, after: Skew, weighting: Weighting = "B") -> Floats:
    """Return the weight of each user in an average after sharing, float64[K].

    `B` (default) is ñ_k/Σñ, a proper average; `C` is n_k/n; `A` is ñ_k/n as printed in the paper, whose sum exceeds 1.
    """
    own, total = before.sizes, before.sizes.sum()
    by_name: dict[str, Floats] = {"A": after.sizes / total, "B": after.sizes / after.sizes.sum(), "C": own / total}
    if weighting not in by_name:
        raise FedcastError(f"invalid value {weighting!r} for weighting: expected A, B or C")
    return by_name[weighting]


def average_emd(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Return the average EMD of the users; without `after`, before sharing, where all weightings are equal.

    Example:
        >>> average_emd(skew_of([[4, 0], [0, 4]]))
        1.0
    """
    return _average(emd, before, after, weighting)


def average_js(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Return the average Jensen–Shannon divergence of the users, nats."""
    return _average(js_divergence, before, after, weighting)


def average_kl(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Return the average KL divergence of the users, nats."""
    return _average(kl_divergence, before, after, weighting)


def _average(measure: Callable[..., Floats], before: Skew, after: Skew | None, weighting: Weighting) -> float:
    after = before if after is None else after
    return float(weights(before, after, weighting) @ measure(after.distributions, after.global_distribution))


def distribution_shift(after: Skew) -> float:
    r"""Return how far sharing moved the global distribution (L1 norm).

    .. math:: \Big\| \sum_k \tilde n_k \tilde P_k \Big/ \sum_k \tilde n_k - P_g \Big\|_1

    Example:
        >>> distribution_shift(skew_of([[4, 0], [0, 4]]))
        0.0
    """
    overall = after.sizes @ after.distributions / after.sizes.sum()
    return float(np.abs(overall - after.global_distribution).sum())
