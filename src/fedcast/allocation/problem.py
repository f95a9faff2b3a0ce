r"""The allocation problem: what the methods see of a clustering, a fleet and a rounds model.

.. math:: \min_{N}\; \mathbb{E}_\beta\big[\tau^s(N) + T(\tilde D(N); \beta)\, \tau(N)\big] \quad \text{s.t.} \quad
    0 \le N_m \le \alpha_m n_m, \quad \sum_m \frac{|C_m|}{K} \frac{N_m}{n_m} \le \text{max\_asr}

Problem P3' (Eq. 32) with the frequencies eliminated: Eq. 29 gives the best one for any volumes, so that the energy
constraint is met by construction and no longer couples with N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.allocation.averages import MEASURES, Averages, Skewness
from fedcast.allocation.delay import round_delay
from fedcast.allocation.minimise import Feasible, Minimiser, minimise_surrogate
from fedcast.allocation.offers import Offer, OwnOffer, balanced_offer
from fedcast.allocation.taking_part import who_trains, without_others
from fedcast.clustering import Clustering
from fedcast.cost import Fleet
from fedcast.data import Skew, Weighting, average_emd, average_js, average_kl
from fedcast.errors import FedcastError
from fedcast.formatting import user_label
from fedcast.rounds.model import BetaSet, RoundsModel
from fedcast.scenario import Allocation
from fedcast.typing import Floats, Ints, Names


class Point(NamedTuple):
    """What there is to know at some ratios.

    Attributes:
        x: float64[M], share of its samples that each head sends.
        sharing_s: sharing delay.
        round_s: delay of one round.
        skewness: average skew and shift, with gradients by volume.
    """

    x: Floats
    sharing_s: float
    round_s: float
    skewness: Skewness


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """Everything the methods need, and the means to evaluate any ratios.

    Attributes:
        clustering: who shares with whom, without users that are left out.
        fleet: the users that train: all who hold samples, or have a head that may send them some.
        trained: bool[K], which they are.
        members: int64[C], members as indices into `fleet`, by cluster.
        rate_bps: float64[K], rate of the link from each member's head.
        bits_per_sample: bits of one sample.
        averages: average skew against volumes.
        caps: float64[M], the largest ratio that each head may send.
        feasible: where an optimum may lie: within the caps, without what cannot be worthwhile.
        betas: over which the expectation is taken; the one fixed evaluation set.
        model: that they were drawn from.
        settings: of the allocation.
        seed: of the draws.
        minimiser: of surrogates on `feasible`; the exact one by default.
    """

    clustering: Clustering
    fleet: Fleet
    trained: NDArray[np.bool_]
    members: Ints
    rate_bps: Floats
    bits_per_sample: float
    averages: Averages
    caps: Floats
    feasible: Feasible
    betas: BetaSet
    model: RoundsModel
    settings: Allocation
    seed: int
    minimiser: Minimiser = minimise_surrogate

    @property
    def num_clusters(self) -> int:
        """Clusters M."""
        return len(self.feasible.upper)

    def at(self, x: Floats) -> Point:
        """Delays and skew at ratios float64[M]."""
        volumes = x * self.feasible.sizes
        sharing_s = float((x / self.feasible.rate).max(initial=0.0))
        return Point(x, sharing_s, self.feasible.delay.at(volumes), self.averages.at(volumes))

    def objective_s(self, point: Point, betas: BetaSet | None = None) -> float:
        """Expected delay of the whole task, s; by default over the evaluation set."""
        rounds = (self.betas if betas is None else betas).expected(point.skewness.skew, point.skewness.shift)[0]
        return point.sharing_s + rounds * point.round_s

    def start(self) -> Floats:
        """Where the searches start: `initial_ratio`, as far as it is allowed."""
        return self.feasible.shrunk(np.minimum(self.settings.initial_ratio, self.feasible.upper))

    def volumes_of_users(self, x: Floats) -> Floats:
        """Volumes of all users, float64[K], from the ratios of heads."""
        volumes = np.zeros(self.clustering.problem.num_users)
        volumes[self.clustering.heads] = x * self.feasible.sizes
        return volumes


def make_allocation_problem(
    clustering: Clustering,
    fleet: Fleet,
    model: RoundsModel,
    settings: Allocation | None = None,
    *,
    bits_per_sample: float,
    rate_bps: ArrayLike | None = None,
    beta_samples: int = 200,
    seed: int = 0,
    minimiser: Minimiser = minimise_surrogate,
) -> AllocationProblem:
    """Prepare an allocation.

    Args:
        clustering: who shares with whom; its volumes are not looked at.
        fleet: devices and links of all K users.
        model: rounds against skew.
        settings: caps, steps, what to do with infeasible users.
        bits_per_sample: bits of one sample.
        rate_bps: float[K], rate of the link from each member's head; None: the graph's.
        beta_samples: parameter vectors in the evaluation set.
        seed: of every draw.
        minimiser: of the engine's surrogates; the exact one by default.
    """
    settings = Allocation() if settings is None else settings
    if not bits_per_sample > 0:
        raise FedcastError(f"data.bits_per_sample: {bits_per_sample}, expected above 0")
    base = clustering.with_volumes(np.zeros(clustering.problem.num_users)).after
    trained = who_trains(clustering, base.sizes, fleet, settings)
    clustering = without_others(clustering, trained)
    rates = _checked_rates(clustering, rate_bps, fleet.devices.names)
    users, cluster = _members_by_cluster(clustering)
    members = (np.cumsum(trained) - 1)[users]
    worst = np.full(len(clustering.heads), np.inf)
    np.minimum.at(worst, cluster, rates[users])
    sizes = clustering.problem.skew.sizes[clustering.heads]
    caps = np.minimum(settings.max_sharing_ratio, fleet.devices.consent[clustering.heads])
    averages = _averages(clustering, trained, members, cluster, base, model)
    cut = averages.convex and model.form != "extended"
    upper = averages.worthwhile(caps * sizes) / sizes if cut else caps
    delay = round_delay(fleet.of(trained), base.sizes[trained], members, cluster, caps * sizes)
    leak = clustering.cluster_sizes[clustering.heads] / len(trained)
    limit = np.inf if settings.max_asr is None else settings.max_asr
    feasible = Feasible(worst / (bits_per_sample * sizes), upper, sizes, delay, leak, limit)
    betas = model.draw(beta_samples, _skew_before(clustering, trained, model), seed)
    who = (clustering, fleet.of(trained), trained, members)
    return AllocationProblem(
        *who, rates, bits_per_sample, averages, caps, feasible, betas, model, settings, seed, minimiser
    )


def _members_by_cluster(clustering: Clustering) -> tuple[Ints, Ints]:
    """Members in the order of their heads, and the place of each one's head among the heads, int64[C] each."""
    users = clustering.members[np.argsort(clustering.head_of[clustering.members], kind="stable")]
    return users, np.searchsorted(clustering.heads, clustering.head_of[users])


def _checked_rates(clustering: Clustering, rate_bps: ArrayLike | None, names: Names | None) -> Floats:
    graph = clustering.problem.graph
    rates = clustering.of_links(graph.rate_bps) if rate_bps is None else np.asarray(rate_bps, dtype=np.float64)
    if rates.shape != (clustering.problem.num_users,):
        raise FedcastError(
            f"rate_bps: shape {rates.shape}, expected one rate for each of {clustering.problem.num_users} users"
        )
    members = clustering.members
    mute = members[~(rates[members] > 0)]
    if len(mute):
        user = int(mute[0])
        raise FedcastError(
            f"rate_bps of {user_label(user, names)}: {rates[user]} bit/s from its head, "
            f"{user_label(clustering.head_of[user], names)}; give the rates of pairs that the graph does not link, "
            f"or let the rule respect the graph"
        )
    return rates


def _offer(clustering: Clustering) -> Offer:
    skew, heads = clustering.problem.skew, clustering.heads
    whole = skew.global_distribution
    if len(heads) and clustering.problem.settings.composition == "balanced":
        return balanced_offer(skew.sizes[heads, None] * skew.distributions[heads], whole)
    if len(heads) and clustering.problem.settings.composition == "auto":
        raise FedcastError(
            "clustering.composition is 'auto', which each rule settles for itself: cluster with `cluster`, or choose "
            "own or balanced"
        )
    return OwnOffer(skew.distributions[heads] - whole)


def _averages(
    clustering: Clustering, trained: NDArray[np.bool_], members: Ints, cluster: Ints, base: Skew, model: RoundsModel
) -> Averages:
    before = clustering.problem.skew
    weighting, whole = clustering.problem.weighting, before.global_distribution
    held, own = base.sizes[trained], before.sizes[trained]
    deviation = held[:, None] * (base.distributions[trained] - whole)
    measure = MEASURES[model.measure]
    others = np.ones(len(held), dtype=bool)
    others[members] = False
    each = measure(deviation[others], np.zeros_like(deviation[others]), held[others], whole).value
    rest = float((own if weighting == "C" else held)[others] @ each)
    return Averages(
        _offer(clustering),
        cluster,
        deviation[members],
        held[members],
        whole,
        np.bincount(cluster, minlength=len(clustering.heads)).astype(float),
        rest,
        float(own.sum()),
        float(held.sum()),
        deviation.sum(axis=0),
        measure,
        weighting,
    )


def _skew_before(clustering: Clustering, trained: NDArray[np.bool_], model: RoundsModel) -> float:
    part = part_of(clustering.problem.skew, trained)
    return skew_of_users(part, part, model, clustering.problem.weighting)


def part_of(skew: Skew, users: NDArray[np.bool_]) -> Skew:
    """A skew of all users reduced to some, by a mask; the whole that they are compared with stays that of all."""
    return Skew(skew.sizes[users], skew.distributions[users], skew.global_distribution)


def skew_of_users(before: Skew, after: Skew, model: RoundsModel, weighting: Weighting) -> float:
    """The average that a rounds model is a function of, by `fedcast.data.skew`."""
    average = {"emd": average_emd, "js": average_js, "kl": average_kl}[model.measure]
    return average(before, after, weighting)
