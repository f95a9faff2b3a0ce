"""The problem that clustering rules solve: what users hold, who may share with whom, how much and what."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.data import Skew, Weighting, emd
from fedcast.errors import FedcastError
from fedcast.network import Graph
from fedcast.registry import NoOptions
from fedcast.scenario import ClusteringSettings
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.clustering.clustering_result import Clustering

Composition = Literal["own", "balanced"]

# Volumes are products such as 0.1 · n: this much above n is rounding, not an error.
ROUNDING = 1e-9
# Rows handled at once: their temporaries stay in the processor's cache.
_BLOCK = 16_384


@dataclass(frozen=True, eq=False)
class Problem:
    """A clustering problem, with the settings of the rule that is to solve it."""

    skew: Skew  #: sizes and label distributions of the users
    graph: Graph  #: who may share with whom
    #: float64[K], samples :math:`n^s_k` that user k would send to each member if it were a head, at most what it holds.
    #: A user with volume 0 (nothing to share, no consent) cannot become a head.
    volumes: Floats
    settings: ClusteringSettings = field(default_factory=ClusteringSettings)  #: the rule and its options
    seed: int = 0  #: of every random choice
    #: whether the columns of the descriptor are the samples' labels (classes, next characters), so that a head can
    #: choose what it sends by column. With other descriptors heads can only send a random part.
    one_hot: bool = True
    #: samples that the rule ``central`` sends to each user; None: as many as DACA on average
    server_volume: float | None = None
    #: float64[K], largest share of its samples that each user agrees to send, for rule ``central``; None: all of them
    max_ratios: Floats | None = None

    def __post_init__(self) -> None:
        users, volumes, sizes = self.num_users, self.volumes, self.skew.sizes
        if self.graph.num_users != users:
            raise FedcastError(f"graph: it has {self.graph.num_users} users, the data have {users}; both must agree")
        _check_per_user("volumes", volumes, sizes, "the samples it holds")
        if self.server_volume is not None and not 0 <= self.server_volume <= sizes.sum():
            raise FedcastError(
                f"invalid value {self.server_volume} for server_volume: expected 0 to {sizes.sum()}, all samples"
            )

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return self.skew.num_users

    @property
    def weighting(self) -> Weighting:
        """Weighting of the average after sharing: A, B or C."""
        return self.settings.weighting

    @cached_property
    def emd(self) -> Floats:
        """D_EMD of each user before sharing, float64[K]."""
        skew, divergences = self.skew, np.empty(self.num_users)
        for start in range(0, self.num_users, _BLOCK):
            rows = slice(start, start + _BLOCK)
            divergences[rows] = emd(skew.distributions[rows], skew.global_distribution)
        return divergences

    @cached_property
    def sent_distributions(self) -> Floats:
        """Distribution :math:`q_k` of what user k would send, float64[K, Y]."""
        match self.settings.composition:
            case "own":
                return self.skew.distributions
            case "balanced":
                return balanced_distributions(self.skew, self.volumes)
        raise FedcastError(
            "clustering.composition is 'auto', which each rule replaces by its own: cluster with `cluster`, or choose "
            "own or balanced"
        )

    @property
    def mixes(self) -> Floats:
        """Old name of `sent_distributions`."""
        warnings.warn("Problem.mixes was renamed; use sent_distributions", DeprecationWarning, stacklevel=2)
        return self.sent_distributions


@dataclass(frozen=True)
class Rule:
    """A clustering rule."""

    #: (problem, options) → clustering; the same problem always gives the same clustering
    choose: Callable[[Problem, Any], Clustering]
    summary: str  #: one line that says what it does
    why: str  #: what makes a user a head, as the end of "it is a head because it ..."
    composition: Composition = "own"  #: what its heads send unless `clustering.composition` says otherwise
    options: type[Any] = NoOptions  #: dataclass of its options, the table ``[clustering.NAME]``
    allocates: bool = True  #: whether it has heads, whose volumes an allocation method chooses
    #: whether the server sends samples, which it must have before: plans show such a rule but do not choose it
    from_server: bool = False
    #: whether its clusterings have a `Proof`, found within option `time_limit_s`. As that takes long, comparisons use
    #: it only if asked.
    proves: bool = False
    least_users: Callable[[Any], int] = lambda _: 1  #: options → how many users with samples to share it needs
    #: whether it clusters 100,000 users in seconds; otherwise a plan of many users tries it only if asked
    scales: bool = True


def make_problem(
    skew: Skew,
    graph: Graph,
    settings: ClusteringSettings | None = None,
    *,
    max_ratios: ArrayLike | None = None,
    whole: bool = False,
    seed: int = 0,
    one_hot: bool = True,
    server_volume: float | None = None,
) -> Problem:
    r"""Return the problem in which every head sends :math:`n^s_m = \min(\alpha, \alpha_m)\, n_m`; see `Problem`.

    :math:`\alpha` is `settings.sharing_ratio`, and `max_ratios` float[K] the largest ratio :math:`\alpha_m` that each
    user consents to (None: no limit); `whole` rounds volumes down to integers.

    Example:
        >>> from fedcast.data import skew_of
        >>> no_links = Graph(np.zeros(3, int), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))
        >>> make_problem(skew_of([[25, 0], [0, 40]]), no_links, max_ratios=[1, 0.05]).volumes.tolist()
        [2.5, 2.0]
        >>> make_problem(skew_of([[25, 0], [0, 40]]), no_links, whole=True).volumes.tolist()
        [2.0, 4.0]
    """
    # Without settings there is no plan that could choose the rule.
    settings = ClusteringSettings(rule="daca") if settings is None else settings
    ratios, limits = np.full(skew.num_users, settings.sharing_ratio), None
    if max_ratios is not None:
        limits = np.asarray(max_ratios, dtype=np.float64)
        _check_per_user("max_ratios", limits, np.ones(skew.num_users), "a share of its samples")
        ratios = np.minimum(ratios, limits)
    volumes = ratios * skew.sizes
    if whole:
        volumes = np.floor(volumes + ROUNDING)
    return Problem(
        skew,
        graph,
        volumes,
        settings,
        seed=seed,
        one_hot=one_hot,
        server_volume=server_volume,
        max_ratios=limits,
    )


def _check_per_user(name: str, values: Floats, most: Floats, what: str) -> None:
    if np.shape(values) != np.shape(most):
        raise FedcastError(f"{name}: shape {np.shape(values)}, expected one number for each of {len(most)} users")
    wrong = np.flatnonzero(~((values >= 0) & (values <= most * (1 + ROUNDING))))
    if len(wrong):
        user = int(wrong[0])
        raise FedcastError(
            f"invalid value {values[user]} for {name} of user {user}: expected 0 to {most[user]}, {what}"
        )


def water_fill(counts: ArrayLike, volumes: ArrayLike) -> Floats:
    r"""Take `volumes` samples out of `counts`, as equally over the columns as they allow; float64[..., Y].

    .. math:: s_y = \min(c_y, \ell), \qquad \ell \text{ such that } \sum_y s_y = N

    Among all choices with :math:`0 \le s_y \le c_y` and sum N, this one has the largest smallest part, and is the
    nearest to equal parts in every convex distance.

    `counts` float[..., Y] are not negative, and `volumes` float[...] at most the sums of the rows.

    Example:
        >>> water_fill([10, 1, 5], 9).tolist()
        [4.0, 1.0, 4.0]
    """
    table, wanted = np.asarray(counts, dtype=np.float64), np.asarray(volumes, dtype=np.float64)
    columns = table.shape[-1]
    ascending = np.sort(table, axis=-1)
    before = np.cumsum(ascending, axis=-1) - ascending
    open_columns = columns - np.arange(columns)
    # Column i of the sorted row is the first that the level leaves partly unused.
    first_open = (before + open_columns * ascending < wanted[..., None]).sum(axis=-1, keepdims=True)
    first_open = np.minimum(first_open, columns - 1)
    rest = wanted[..., None] - np.take_along_axis(before, first_open, axis=-1)
    taken: Floats = np.minimum(table, rest / open_columns[first_open])
    return taken


def balanced_distributions(skew: Skew, volumes: Floats) -> Floats:
    """Return the distribution of the most equal part of each user's data with `volumes` samples, float64[K, Y].

    A user that sends nothing keeps its own distribution.

    Example:
        >>> from fedcast.data import skew_of
        >>> balanced_distributions(skew_of([[90, 10], [98, 2]]), np.array([10.0, 10.0])).tolist()
        [[0.5, 0.5], [0.8, 0.2]]
    """
    distributions = skew.distributions.copy()
    for start in range(0, len(distributions), _BLOCK):
        rows = start + np.flatnonzero(volumes[start : start + _BLOCK] > 0)
        taken = water_fill(skew.sizes[rows, None] * skew.distributions[rows], volumes[rows])
        distributions[rows] = taken / taken.sum(axis=1, keepdims=True)
    return distributions
