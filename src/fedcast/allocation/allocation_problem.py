r"""The allocation problem: what the methods see of a clustering, a fleet and a rounds model.

.. math:: \min_{N}\; \mathbb{E}_\beta\big[\tau^s(N) + T(\tilde D(N); \beta)\, \tau(N)\big] \quad \text{s.t.} \quad
    0 \le N_m \le \alpha_m n_m, \quad \sum_m \frac{|C_m|}{K} \frac{N_m}{n_m} \le \text{max\_asr}

Problem P3' (Eq. 32) with the frequencies eliminated: Eq. 29 gives the best one for any volumes, so that the energy
constraint always holds and no longer couples with N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.allocation.average_skew import MEASURES, AverageSkew, BalancedOffer, Offer, OwnOffer, SkewAt
from fedcast.allocation.inner import Feasible, Minimiser, minimise_surrogate, round_delay
from fedcast.clustering import Clustering
from fedcast.cost import Feasibility, Fleet, feasibility, round_cost
from fedcast.data import Skew, Weighting, average_emd, average_js, average_kl
from fedcast.errors import FedcastError
from fedcast.formatting import user_label
from fedcast.rounds import BetaSet, ExpectedRounds, RoundsModel, local_steps
from fedcast.scenario import Allocation
from fedcast.typing import Floats, Ints, Names

# Infeasible users that an error message lists.
_LISTED = 10


class Point(NamedTuple):
    """The parts of the objective at ratios x float64[M]: sharing delay, delay of a round, skew with its gradients."""

    x: Floats
    sharing_s: float
    round_s: float
    skew_at: SkewAt

    def expected(self, betas: BetaSet) -> ExpectedRounds:
        """Return the expected rounds and their slopes."""
        return betas.expected(self.skew_at.skew, self.skew_at.shift, self.skew_at.steps)


@dataclass(frozen=True, eq=False)
class AllocationProblem:
    """An allocation problem, with functions that evaluate any ratios.

    `feasible` contains an optimum: ratios within the caps, without volumes that cannot lower the skew.
    """

    clustering: Clustering  # who shares with whom, without users that are left out
    fleet: Fleet  # the users that train: all who hold samples, or have a head that may send them some
    trained: NDArray[np.bool_]  # [K], which they are
    held: Floats  # [K trained], their samples before heads send any
    members: Ints  # [C], members as indices into `fleet`, by cluster
    rate_bps: Floats  # [K], rate of the link from each member's head
    bits_per_sample: float  # bits of one sample
    averages: AverageSkew  # average skew as a function of volumes
    caps: Floats  # [M], the largest ratio that each head may send
    feasible: Feasible
    skew_before: float  # average skew of the users that train, before sharing, by the measure of the rounds model
    betas: BetaSet  # parameter vectors over which the expectation is taken; the one fixed evaluation set
    model: RoundsModel  # rounds model that they were drawn from
    batch_size: int  # samples of a local step
    initial: Floats  # [M], ratios at which searches start
    seed: int  # of the draws
    worth: Floats  # [K], raw samples that a sample of each user counts as, see `fedcast.rounds.worth`
    upper: Floats  # [M], largest ratios without a limit of the average sharing ratio
    minimiser: Minimiser = minimise_surrogate  # of surrogates on `feasible`; the exact one by default

    @property
    def num_clusters(self) -> int:
        """Number of clusters M."""
        return len(self.feasible.upper)

    def at(self, x: Floats) -> Point:
        """Return delays and skew at ratios float64[M]."""
        volumes = x * self.feasible.sizes
        sharing_s = float((x / self.feasible.rate).max(initial=0.0))
        return Point(x, sharing_s, self.feasible.delay.at(volumes), self.averages.at(volumes))

    def objective_s(self, point: Point, betas: BetaSet | None = None) -> float:
        """Return the expected delay of the task, s; by default over the evaluation set."""
        return point.sharing_s + point.expected(self.betas if betas is None else betas).rounds * point.round_s

    def start(self) -> Floats:
        """Return the ratios float64[M] at which searches start: `initial` as far as they are feasible."""
        return self.feasible.scaled_to_limit(np.minimum(self.initial, self.feasible.upper))

    def best_of(self, candidates: list[Floats]) -> Floats:
        """Return the ratios of least expected delay; of equals the last, so that nothing is shared in vain."""
        values = [self.objective_s(self.at(x)) for x in candidates]
        return candidates[len(values) - 1 - int(np.argmin(values[::-1]))]

    def with_epochs(self, epochs: int) -> AllocationProblem:
        """Return the problem with another number of local epochs, at a fraction of the cost of making it anew.

        Clusters, skew, rates and caps do not depend on it: only the delay of a round, the local steps and the
        parameter vectors, which must be valid with so many local steps.
        """
        if epochs == self.fleet.local_epochs:
            return self
        fleet, factor = replace(self.fleet, local_epochs=epochs), epochs / self.fleet.local_epochs
        averages = replace(
            self.averages,
            steps_before=factor * self.averages.steps_before,
            steps_gradient=factor * self.averages.steps_gradient,
        )
        upper = self.caps * self.feasible.sizes
        delay = round_delay(fleet, self.held, self.members, averages.cluster, upper)
        betas = self.model.draw(self.betas.size, self.skew_before, self.seed, averages.steps_before)
        feasible = replace(self.feasible, delay=delay)
        return replace(self, fleet=fleet, averages=averages, feasible=feasible, betas=betas)

    def with_max_asr(self, limit: float) -> AllocationProblem:
        """Return the problem with another limit of the average sharing ratio."""
        unlimited = replace(self.feasible, upper=self.upper, max_leak=np.inf)
        return replace(self, feasible=unlimited.within(limit))

    def with_start(self, volumes: Floats) -> AllocationProblem:
        """Return the problem with searches that start at volumes of users, float64[K], such as those of a result."""
        return replace(self, initial=volumes[self.clustering.heads] / self.feasible.sizes)

    def volumes_of_users(self, x: Floats) -> Floats:
        """Return the volumes of all users, float64[K], from the ratios of heads."""
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
    batch_size: int = 10,
    worth: ArrayLike = 1.0,
    reveals: ArrayLike = True,
    minimiser: Minimiser = minimise_surrogate,
) -> AllocationProblem:
    """Return the allocation problem of a clustering; arguments are those of `fedcast.allocation.allocate`."""
    settings = Allocation() if settings is None else settings
    if not bits_per_sample > 0:
        raise FedcastError(f"invalid value {bits_per_sample} for data.bits_per_sample: expected a number > 0")
    base = clustering.with_volumes(np.zeros(clustering.problem.num_users)).after
    trained = _who_trains(clustering, base.sizes, fleet, settings)
    if not trained.all():
        # Users that are left out are no members; they may still be heads, since sharing is not part of a round.
        clustering = replace(clustering, head_of=np.where(trained, clustering.head_of, -1), proof=None)
    rates = _checked_rates(clustering, rate_bps, fleet.devices.names)
    users = clustering.members_by_head
    cluster = np.searchsorted(clustering.heads, clustering.head_of[users])
    members = (np.cumsum(trained) - 1)[users]
    worst = np.full(len(clustering.heads), np.inf)
    np.minimum.at(worst, cluster, rates[users])
    sizes = clustering.problem.skew.sizes[clustering.heads]
    caps = np.minimum(settings.max_sharing_ratio, fleet.devices.consent[clustering.heads])
    work = fleet.local_epochs, batch_size
    counted = np.broadcast_to(np.asarray(worth, dtype=np.float64), clustering.problem.num_users)
    averages = _averages(clustering, trained, members, cluster, base, model, work, counted[clustering.heads])
    # With the other forms a volume that does not lower the skew can still save rounds.
    cut = averages.convex and model.form in ("paper", "theory")
    upper = averages.largest_useful(caps * sizes) / sizes if cut else caps
    delay = round_delay(fleet.of(trained), base.sizes[trained], members, cluster, caps * sizes)
    shows = np.broadcast_to(np.asarray(reveals), len(trained))[clustering.heads]
    leak = np.where(shows, clustering.cluster_sizes[clustering.heads] / len(trained), 0.0)
    limit = np.inf if settings.max_asr is None else settings.max_asr
    before = part_of(clustering.problem.skew, trained)
    skew_before = skew_for_model(before, before, model, clustering.problem.weighting)
    return AllocationProblem(
        clustering,
        fleet.of(trained),
        trained,
        base.sizes[trained],
        members,
        rates,
        bits_per_sample,
        averages,
        caps,
        Feasible(worst / (bits_per_sample * sizes), upper, sizes, delay, leak, np.inf).within(limit),
        skew_before,
        model.draw(beta_samples, skew_before, seed, averages.steps_before),
        model,
        batch_size,
        np.full(len(sizes), settings.initial_ratio),
        seed,
        counted,
        upper,
        minimiser,
    )


def part_of(skew: Skew, users: NDArray[np.bool_]) -> Skew:
    """Return the skew of the users in a mask, compared with the global distribution of all users."""
    return Skew(skew.sizes[users], skew.distributions[users], skew.global_distribution)


def skew_for_model(before: Skew, after: Skew, model: RoundsModel, weighting: Weighting) -> float:
    """Return the average skew that a rounds model is a function of, by `fedcast.data.skew`."""
    return {"emd": average_emd, "js": average_js, "kl": average_kl}[model.measure](before, after, weighting)


def _who_trains(clustering: Clustering, held: Floats, fleet: Fleet, settings: Allocation) -> NDArray[np.bool_]:
    """Return which users take part in rounds, bool[K]: those with samples, now or from a head, that can upload.

    A user without samples never makes a problem infeasible: it trains only if a head sends to it and rounds of one
    local epoch do not wait for it, since no sample is lost without it; so the same users train with any number of
    epochs. `held` are samples before heads send any, float64[K].
    """
    if len(fleet.devices.consent) != len(held):
        raise FedcastError(
            f"fleet: it has {len(fleet.devices.consent)} users, the clustering has {len(held)}; both must agree"
        )
    holds = held > 0
    report = feasibility(fleet, np.maximum(held, 1.0))
    able = report.feasible & holds
    if not np.array_equal(able, holds):
        of_holders = replace(report, feasible=report.feasible | ~holds)
        if settings.infeasible_users == "refuse":
            raise FedcastError(_infeasible_users_text(of_holders))
        if not able.any():
            raise FedcastError(f"{_infeasible_users_text(of_holders)}; nobody would be left to train")
    if holds.all():
        return able
    served = report.feasible & ~holds & (clustering.head_of >= 0)
    return able | (served & ~_slow_down_rounds(replace(fleet, local_epochs=1), held, able))


def _slow_down_rounds(fleet: Fleet, held: Floats, trained: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which users, bool[K], would lengthen a round of the others by downloading and uploading the model."""
    cell_of, download_s = fleet.links.cell_of, fleet.model_bits * fleet.links.down_s_per_bit
    broadcast_s = np.zeros(cell_of.max() + 1)
    np.maximum.at(broadcast_s, cell_of[trained], download_s[trained])
    round_s = round_cost(fleet.of(trained), held[trained]).round_s
    return (download_s > broadcast_s[cell_of]) | (broadcast_s[cell_of] + fleet.upload_s > round_s)


def _infeasible_users_text(report: Feasibility) -> str:
    users = report.infeasible_users
    lines = [report.explain(int(user)) for user in users[:_LISTED]]
    if len(users) > _LISTED:
        lines.append(f"and {len(users) - _LISTED} more")
    return (
        f"devices.energy_budget_j: {len(users)} of {len(report.feasible)} users cannot upload within their budget:\n  "
        + "\n  ".join(lines)
        + f"\na budget of {report.enough_j:g} J is enough for all of them; raise it, use a smaller model, or train "
        f"without them (allocation.infeasible_users = 'exclude')"
    )


def _checked_rates(clustering: Clustering, rate_bps: ArrayLike | None, names: Names | None) -> Floats:
    graph = clustering.problem.graph
    rates = clustering.of_links(graph.rate_bps) if rate_bps is None else np.asarray(rate_bps, dtype=np.float64)
    if rates.shape != (clustering.problem.num_users,):
        raise FedcastError(
            f"rate_bps: shape {rates.shape}, expected one rate for each of {clustering.problem.num_users} users"
        )
    members = clustering.members
    without_rate = members[~(rates[members] > 0)]
    if len(without_rate):
        user = int(without_rate[0])
        raise FedcastError(
            f"rate_bps of {user_label(user, names)}: {rates[user]} bit/s from its head, "
            f"{user_label(clustering.head_of[user], names)}; give the rates of pairs that the graph does not link, "
            f"or let the rule respect the graph"
        )
    return rates


def _averages(
    clustering: Clustering,
    trained: NDArray[np.bool_],
    members: Ints,
    cluster: Ints,
    base: Skew,
    model: RoundsModel,
    work: tuple[int, int],
    worth: Floats,
) -> AverageSkew:
    """Return the average skew and local steps as functions of volumes; `work` are local epochs and batch size."""
    before, weighting = clustering.problem.skew, clustering.problem.weighting
    overall = before.global_distribution
    held, own = base.sizes[trained], before.sizes[trained]
    deviation = held[:, None] * (base.distributions[trained] - overall)
    measure = MEASURES[model.measure]
    others = np.ones(len(held), dtype=bool)
    others[members] = False
    each = measure(deviation[others], np.zeros_like(deviation[others]), held[others], overall)[0]
    rest = float((own if weighting == "C" else held)[others] @ each)
    heads = clustering.heads
    if clustering.problem.settings.composition == "balanced":
        offer: Offer = BalancedOffer(before.sizes[heads, None] * before.distributions[heads], overall)
    else:
        # Without heads the composition may still be open.
        sent = clustering.problem.sent_distributions if len(heads) else before.distributions
        offer = OwnOffer(sent[heads] - overall)
    return AverageSkew(
        offer,
        cluster,
        deviation[members],
        held[members],
        overall,
        np.bincount(cluster, minlength=len(heads)).astype(float),
        rest,
        float(own.sum()),
        float(held.sum()),
        deviation.sum(axis=0),
        measure,
        weighting,
        local_steps(own, held, *work),
        worth * work[0] / (work[1] * own.sum()) * np.bincount(cluster, own[members], len(heads)),
        worth,
    )
