"""How far users' data are from the whole: EMD, KL and JS on descriptors, before and after sharing.

A descriptor is one probability vector per user, the mean of one vector per sample, so that mixing data mixes
descriptors linearly. Everything here is a function of sizes n_k and distributions P_k, whatever the
descriptor is made of (classes, input values, feature clusters, next characters). Divergences are in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError, FedcastError
from fedcast.typing import Floats

Weighting = Literal["A", "B", "C"]


@dataclass(frozen=True)
class Skew:
    """What the planner sees of a population.

    Attributes:
        sizes: float64[K], samples of each user.
        distributions: float64[K, Y], rows sum to 1. An empty user's row is the global distribution.
        global_distribution: float64[Y], of all data before sharing.
    """

    sizes: Floats
    distributions: Floats
    global_distribution: Floats

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.sizes)

    @property
    def emd(self) -> Floats:
        """D_EMD of each user, float64[K]."""
        return emd(self.distributions, self.global_distribution)


def skew_of(counts: ArrayLike) -> Skew:
    """The skew of a table of counts[K, Y]; an empty user counts as the whole, with weight 0.

    Example:
        >>> skew = skew_of([[4, 0], [2, 2], [0, 0]])
        >>> skew.global_distribution.tolist()
        [0.75, 0.25]
        >>> skew.emd.tolist()
        [0.5, 0.5, 0.0]
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise DataError(f"counts must be a table of users by classes, got shape {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        user, column = np.argwhere(~(table >= 0) | ~np.isfinite(table))[0]
        raise DataError(f"counts of user {user}, class {column}: {table[user, column]} is not a count")
    sizes = table.sum(axis=1)
    total = sizes.sum()
    if total == 0:
        raise DataError("no user holds any data: every count is 0")
    whole = table.sum(axis=0) / total
    distributions = np.divide(table, sizes[:, None], out=np.tile(whole, (len(table), 1)), where=sizes[:, None] > 0)
    return Skew(sizes, distributions, whole)


def emd(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    """The paper's D_EMD, the sum over y of abs(P_k(y) − P_g(y)), in [0, 2].

    It is the L1 distance: twice the cost of optimal transport when moving between any two classes costs 1. It does
    not know that classes could be near each other, as ``scipy.stats.wasserstein_distance`` would.

    Args:
        distributions: [..., Y], rows sum to 1.
        global_distribution: [Y].

    Example:
        >>> emd([[1.0, 0.0], [0.5, 0.5]], [0.5, 0.5]).tolist()
        [1.0, 0.0]
    """
    distance: Floats = np.abs(np.asarray(distributions) - np.asarray(global_distribution)).sum(axis=-1)
    return distance


def kl_divergence(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    """KL(P_k ‖ P_g) = Σ_y P_k(y) ln(P_k(y) / P_g(y)) in nats; 0 ln 0 counts as 0.

    Example:
        >>> kl_divergence([1.0, 0.0], [0.5, 0.5]).round(6).item()
        0.693147
    """
    p, q = np.broadcast_arrays(np.asarray(distributions, float), np.asarray(global_distribution, float))
    if ((p > 0) & (q == 0)).any():
        raise DataError("KL is infinite: a user holds a class that the global distribution does not have")
    divergence: Floats = _p_log_ratio(p, q).sum(axis=-1)
    return divergence


def js_divergence(distributions: ArrayLike, global_distribution: ArrayLike) -> Floats:
    """Jensen–Shannon divergence in nats, in [0, ln 2]: the mean KL of both to their midpoint, not its root.

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
    logs: Floats = p * np.log(ratio)
    return logs


def share(skew: Skew, head_of: ArrayLike, shared: ArrayLike, mixes: ArrayLike | None = None) -> Skew:
    """The skew after every head has sent `shared` samples to each of its members.

    A member k of head m has ñ_k = n_k + n_m^s and P̃_k = (n_k P_k + n_m^s q_m) / ñ_k afterwards.
    Heads and users without a head are unchanged, and the global distribution stays that of before.

    Args:
        skew: before sharing.
        head_of: int[K], the head of each user, or -1.
        shared: float[K], samples that user k sends to each member, if it is a head.
        mixes: float[K, Y], class mix q_k of what user k sends; None: its own distribution.

    Example:
        >>> before = skew_of([[4, 0], [2, 2]])
        >>> share(before, [1, -1], [0, 2]).distributions[0].round(3).tolist()
        [0.833, 0.167]
    """
    heads = np.asarray(head_of, dtype=np.int64)
    volumes = np.asarray(shared, dtype=np.float64)
    sent = skew.distributions if mixes is None else np.asarray(mixes, dtype=np.float64)
    members = np.flatnonzero(heads >= 0)
    members = members[volumes[heads[members]] > 0]
    received = volumes[heads[members]]
    sizes, distributions = skew.sizes.copy(), skew.distributions.copy()
    sizes[members] += received
    own = skew.sizes[members, None] * skew.distributions[members]
    distributions[members] = (own + received[:, None] * sent[heads[members]]) / sizes[members, None]
    return Skew(sizes, distributions, skew.global_distribution)


def weights(before: Skew, after: Skew, weighting: Weighting = "B") -> Floats:
    """Weight of each user in an average after sharing, float64[K].

    `B` (default) ñ_k/Σñ, a proper average; `C` n_k/n; `A` ñ_k/n as the paper prints it, which sums to more
    than 1.
    """
    own, total = before.sizes, before.sizes.sum()
    by_name: dict[str, Floats] = {"A": after.sizes / total, "B": after.sizes / after.sizes.sum(), "C": own / total}
    if weighting not in by_name:
        raise FedcastError(f"unknown weighting {weighting!r}: expected A, B or C")
    return by_name[weighting]


def average_emd(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Average D_EMD over users; without `after`, before sharing (all weightings agree there).

    Example:
        >>> average_emd(skew_of([[4, 0], [0, 4]]))
        1.0
    """
    after = before if after is None else after
    return float(weights(before, after, weighting) @ after.emd)


def average_js(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Average Jensen–Shannon divergence over users, nats."""
    after = before if after is None else after
    return float(weights(before, after, weighting) @ js_divergence(after.distributions, after.global_distribution))


def average_kl(before: Skew, after: Skew | None = None, weighting: Weighting = "B") -> float:
    """Average KL divergence over users, nats."""
    after = before if after is None else after
    return float(weights(before, after, weighting) @ kl_divergence(after.distributions, after.global_distribution))


def mixture_shift(after: Skew) -> float:
    """How far sharing moved the overall mixture: ‖Σ_k ñ_k P̃_k / Σñ − P_g‖₁.

    Example:
        >>> mixture_shift(skew_of([[4, 0], [0, 4]]))
        0.0
    """
    mixture = after.sizes @ after.distributions / after.sizes.sum()
    return float(np.abs(mixture - after.global_distribution).sum())
