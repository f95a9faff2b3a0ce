"""The question every clustering rule answers: who holds what, who may share with whom, and how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.clustering.composition import BLOCK, balanced_mixes
from fedcast.data import Skew, Weighting, emd
from fedcast.errors import FedcastError
from fedcast.network import Graph
from fedcast.registry import NoOptions
from fedcast.scenario import ClusteringSettings
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.clustering.result import Clustering

Composition = Literal["own", "balanced"]

# Volumes come out of products such as 0.1 · n: this much above n is rounding, not a fault.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Sizes, distributions, links and sharing volumes, with the options of the rule that is to solve it.

    Attributes:
        skew: what users hold.
        graph: who may share with whom.
        volumes: float64[K], samples :math:`n^s_k` that user k would send to each member if it were a head, at most
            what it holds. A user with volume 0 (nothing to give, no consent) is no candidate for a head.
        settings: the rule and its options.
        seed: of every random choice.
        one_hot: whether the columns of the descriptor are the samples' labels (classes, next characters), so that a
            head can choose what it sends column by column. Of other descriptors (a histogram of input values, feature
            clusters) heads can only send a random part.
        server_volume: samples that the rule ``central`` sends to each user; None: as many as DACA on average.
    """

    skew: Skew
    graph: Graph
    volumes: Floats
    settings: ClusteringSettings = field(default_factory=ClusteringSettings)
    seed: int = 0
    one_hot: bool = True
    server_volume: float | None = None

    def __post_init__(self) -> None:
        _refuse_wrong_lengths(self)
        _refuse_wrong_volumes(self)

    @property
    def num_users(self) -> int:
        """Users K."""
        return self.skew.num_users

    @property
    def weighting(self) -> Weighting:
        """Weights of the average after sharing: A, B or C."""
        return self.settings.weighting

    @cached_property
    def emd(self) -> Floats:
        """D_EMD of each user before sharing, float64[K]."""
        skew, divergences = self.skew, np.empty(self.num_users)
        for start in range(0, self.num_users, BLOCK):
            rows = slice(start, start + BLOCK)
            divergences[rows] = emd(skew.distributions[rows], skew.global_distribution)
        return divergences

    @cached_property
    def mixes(self) -> Floats:
        """Distribution :math:`q_k` of what user k would send, float64[K, Y]."""
        match self.settings.composition:
            case "own":
                return self.skew.distributions
            case "balanced":
                return balanced_mixes(self.skew, self.volumes)
        raise FedcastError(
            "clustering.composition is 'auto', which each rule settles for itself: "
            "solve the problem with `cluster`, or choose own or balanced"
        )


@dataclass(frozen=True)
class Rule:
    """A clustering rule.

    Attributes:
        choose: (problem, options) → clustering; the same problem always gives the same clustering.
        summary: one line that says what it does.
        why: what makes a user a head, as the end of "it is a head because it ...".
        composition: what its heads send unless `clustering.composition` says otherwise.
        options: dataclass of its options, the table ``[clustering.NAME]``.
    """

    choose: Callable[[Problem, Any], Clustering]
    summary: str
    why: str
    composition: Composition = "own"
    options: type[Any] = NoOptions


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
    r"""The problem in which every head sends :math:`n^s_m = \min(\alpha, \alpha_m)\, n_m`.

    Args:
        skew: what users hold.
        graph: who may share with whom.
        settings: the rule and its options; :math:`\alpha` is its `sharing_ratio`.
        max_ratios: float[K], the largest ratio :math:`\alpha_m` each user consents to; None: no limit.
        whole: round volumes down to whole samples.
        seed: of every random choice.
        one_hot: see `Problem`.
        server_volume: see `Problem`.

    Example:
        >>> from fedcast.data import skew_of
        >>> no_links = Graph(np.zeros(3, int), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))
        >>> make_problem(skew_of([[25, 0], [0, 40]]), no_links, max_ratios=[1, 0.05]).volumes.tolist()
        [2.5, 2.0]
        >>> make_problem(skew_of([[25, 0], [0, 40]]), no_links, whole=True).volumes.tolist()
        [2.0, 4.0]
    """
    settings = ClusteringSettings() if settings is None else settings
    ratios = np.full(skew.num_users, settings.sharing_ratio)
    if max_ratios is not None:
        limits = np.asarray(max_ratios, dtype=np.float64)
        _refuse_wrong_consent(limits, skew.num_users)
        ratios = np.minimum(ratios, limits)
    volumes = ratios * skew.sizes
    if whole:
        volumes = np.floor(volumes + ROUNDING)
    return Problem(skew, graph, volumes, settings, seed=seed, one_hot=one_hot, server_volume=server_volume)


def _refuse_wrong_lengths(problem: Problem) -> None:
    users = problem.skew.num_users
    if problem.graph.num_users != users:
        raise FedcastError(f"graph: it has {problem.graph.num_users} users, the data have {users}; both must agree")
    if np.shape(problem.volumes) != (users,):
        raise FedcastError(f"volumes: shape {np.shape(problem.volumes)}, expected one number for each of {users} users")


def _refuse_wrong_volumes(problem: Problem) -> None:
    volumes, sizes = problem.volumes, problem.skew.sizes
    wrong = np.flatnonzero(~((volumes >= 0) & (volumes <= sizes * (1 + ROUNDING))))
    if len(wrong):
        user = int(wrong[0])
        raise FedcastError(f"volumes of user {user}: {volumes[user]} samples, expected 0 to the {sizes[user]} it holds")
    server_volume = problem.server_volume
    if server_volume is not None and not 0 <= server_volume <= sizes.sum():
        raise FedcastError(f"server_volume: {server_volume} samples, expected 0 to the {sizes.sum()} of all users")


def _refuse_wrong_consent(limits: Floats, users: int) -> None:
    if limits.shape != (users,):
        raise FedcastError(f"max_ratios: shape {limits.shape}, expected one ratio for each of {users} users")
    wrong = np.flatnonzero(~((limits >= 0) & (limits <= 1)))
    if len(wrong):
        user = int(wrong[0])
        raise FedcastError(f"max_ratios of user {user}: {limits[user]}, expected a share from 0 to 1")
