"""Search for the rule, the local epochs and the volumes of the fastest plan.

Clustering needs volumes before allocation has chosen them. It starts with `clustering.sharing_ratio`; clustering and
allocation are then repeated with the volumes found, until the clusters stay the same or `clustering.max_passes` is
reached, and the best plan is kept. Users that share nothing are offered again before the repetition ends.

Local epochs are chosen jointly: the first clusters of a rule are allocated at the epochs that are best without sharing,
then at the next larger and smaller ones while that shortens the task; the same again for the clusters that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.allocation import AllocationProblem, AllocationResult, make_allocation_problem, method_options, solve
from fedcast.clustering import (
    ROUNDING,
    Clustering,
    Problem,
    allocates,
    cluster,
    enough_can_share,
    find_rule,
    from_server,
    matched_volume,
    quick_rules,
)
from fedcast.cost import Fleet, feasibility, round_cost
from fedcast.errors import NotReachableError
from fedcast.plan.candidates import Candidate, chosen_by_itself, delay_of, faster_rule, outcome_of
from fedcast.plan.diff import match_users
from fedcast.plan.kind_choice import reveals, worth_of
from fedcast.plan.sharing_plan import RuleOutcome, SharingPlan
from fedcast.plan.world import World, link_rates_bps
from fedcast.rounds import RoundsFit, RoundsModel, fit_of, load_rounds
from fedcast.scenario import BEST_RULE
from fedcast.typing import Floats, Ints

# Whether a plan by a given rule also plans the others: not, by one pass each for a note, or fully.
CompareRules = Literal["no", "quick", "full"]

# A search needs few stochastic steps: the final steps on all samples find the same volumes to 0.1 %.
_QUICK_STEPS = 4
# Of more users not every rule is planned fully.
_MANY_USERS = 10_000
_PLANNED_OF_MANY, _PASSES_OF_MANY = 2, 2


@dataclass(eq=False)
class Search:
    """Candidates for the plan of one world."""

    world: World
    epsilon: float | None = None  #: of private kinds, instead of the scenario's
    fit: RoundsFit = field(init=False)
    rounds: RoundsModel = field(init=False)
    worth: Floats = field(init=False)  #: [K], raw samples that a sample of each user counts as
    choices: tuple[int, ...] = field(init=False)  #: local epochs to choose from, ascending
    notes: list[str] = field(init=False, default_factory=list)
    _alone: dict[int, AllocationResult | None] = field(init=False, default_factory=dict)
    _last: tuple[Clustering, AllocationProblem] | None = field(init=False, default=None)
    _first: dict[str, tuple[Clustering, Candidate | None]] = field(init=False, default_factory=dict)  # pass of a rule
    _failures: list[NotReachableError] = field(init=False, default_factory=list)
    _found: dict[tuple[str, SharingPlan | None], Candidate | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        scenario = self.world.scenario
        self.fit = fit_of(scenario.rounds, scenario.data.dataset)
        self.rounds = load_rounds(scenario.rounds, scenario.training.learning_rate, scenario.data.dataset)
        self.worth = worth_of(self.world, self.rounds, self.epsilon)
        self.choices = scenario.training.epoch_choices
        if self.rounds.form != "law" and len(self.choices) > 1:
            self.notes.append(
                f"form {self.rounds.form} of fit {self.rounds.name} does not depend on local epochs: planned with the "
                f"smallest, {self.choices[0]}"
            )
            self.choices = self.choices[:1]
        self.choices = self.in_time(self.choices)

    def in_time(self, choices: tuple[int, ...]) -> tuple[int, ...]:
        """Return the local epochs at which, without sharing, no more users miss the deadline than at the fewest.

        Rounds are predicted as if every update counted: a search would gain by epochs that nobody finishes in time.
        """
        fleet, sizes = self.world.fleet, self.world.skew.sizes
        if fleet.draws is None or (deadline := fleet.draws.participation.deadline_s) is None:
            return choices
        able = feasibility(fleet, np.maximum(sizes, 1.0)).feasible & (sizes > 0)
        late = [
            int((round_cost(replace(fleet, local_epochs=epochs).of(able), sizes[able]).user_s > deadline).sum())
            for epochs in choices
        ]
        return tuple(epochs for epochs, count in zip(choices, late, strict=True) if count <= late[0])

    def best(
        self,
        previous: SharingPlan | None = None,
        compare_rules: CompareRules = "no",
        competitors: Sequence[SharingPlan] = (),
    ) -> tuple[Candidate, tuple[RuleOutcome, ...]]:
        """Return the fastest candidate of the scenario's rule or, if it is best, of all, and what each rule gives.

        The clusters of `previous` and of `competitors` compete; planning also starts from the volumes of `previous`.
        """
        rule = self.world.scenario.clustering.rule
        choose, every = rule == BEST_RULE, rule == BEST_RULE or compare_rules == "full"
        rules = ([] if choose else [rule]) + (self._rules() if every else [])
        found = {name: self._of_rule(name, previous) for name in dict.fromkeys(rules)}
        own = filter(chosen_by_itself, found.values()) if choose else [found[rule]]
        candidates = [one for one in own if one is not None]
        if choose or allocates(rule):
            carried = [self.carried(plan) for plan in (*filter(None, [previous]), *competitors)]
            candidates += filter(None, carried)
        if not candidates:
            raise self._failures[-1]
        chosen = min(candidates, key=delay_of)
        if choose and not chosen.result.average_sharing_ratio:
            chosen = replace(chosen, rule="none")
        best = self._refined(chosen)
        if not choose and compare_rules != "no":
            others = list(found.values()) if every else self._first_passes(rule, best.local_epochs)
            self.notes += faster_rule(best, filter(chosen_by_itself, others))
        return best, tuple(outcome_of(name, one) for name, one in found.items()) if every else ()

    def _refined(self, chosen: Candidate) -> Candidate:
        """Return the candidate with its volumes solved by all steps of the method, where that is better.

        Of many users it stays as it is: all steps take long, and change the delay by a thousandth.
        """
        if self.many:
            return chosen
        refined = replace(chosen, result=self.allocate(chosen.result.clustering, chosen.local_epochs))
        return min(chosen, refined, key=delay_of)

    def _first_passes(self, rule: str, epochs: int) -> list[Candidate | None]:
        """Return what other rules give in one pass at given local epochs; of many users those that are quick."""
        users = self.world.population.num_users
        names = [name for name in quick_rules(self._problem(rule)) if name != rule and allocates(name)]
        quick = [name for name in names if users <= _MANY_USERS or find_rule(name).scales]
        return [self.at(name, cluster(self._problem(name)), epochs) for name in quick]

    def allocate(
        self, clustering: Clustering, epochs: int, *, max_asr: float | None = None, quick: bool = False
    ) -> AllocationResult:
        """Return volumes and frequencies for given clusters; `max_asr` replaces the scenario's limit for the curve."""
        settings = self.world.scenario.allocation
        problem = self._allocation_problem(clustering).with_epochs(epochs)
        if max_asr is not None:
            problem = problem.with_max_asr(max_asr)
        return solve(problem, settings, options=method_options(settings, steps=_QUICK_STEPS) if quick else None)

    def _allocation_problem(self, clustering: Clustering) -> AllocationProblem:
        """Return the allocation problem of some clusters; the last one is kept for other epochs and limits."""
        if self._last is None or self._last[0] is not clustering:
            scenario = self.world.scenario
            problem = make_allocation_problem(
                clustering,
                self._fleet,
                self.rounds,
                scenario.allocation,
                bits_per_sample=self.world.bits_per_sample,
                rate_bps=link_rates_bps(self.world, clustering),
                beta_samples=scenario.rounds.beta_samples,
                seed=scenario.seed,
                batch_size=scenario.training.batch_size,
                worth=self.worth,
                reveals=reveals(self.world),
            )
            self._last = clustering, problem
        return self._last[1]

    @property
    def _fleet(self) -> Fleet:
        """Return the fleet to search with: for asynchronous training that of rounds, which rounds are predicted for."""
        fleet = self.world.fleet
        asynchronous = fleet.draws is not None and fleet.draws.participation.buffer_size is not None
        return replace(fleet, draws=None) if asynchronous else fleet

    @property
    def many(self) -> bool:
        """Return whether there are so many users that not every rule is planned fully."""
        return self.world.population.num_users > _MANY_USERS

    @cached_property
    def _nobody_shares(self) -> Clustering:
        return cluster(_with(self._problem("none"), composition="own"))

    def alone(self, epochs: int) -> AllocationResult | None:
        """Return the task without sharing; None: the target is not reachable."""
        if epochs not in self._alone:
            found = self.at("none", self._nobody_shares, epochs)
            self._alone[epochs] = None if found is None else found.result
        return self._alone[epochs]

    def best_alone(self) -> int:
        """Return the local epochs that are best without sharing; where the target is not reachable, the most."""
        delays = {epochs: result.objective_s for epochs in self.choices if (result := self.alone(epochs)) is not None}
        return min(delays, key=lambda epochs: delays[epochs]) if delays else self.choices[-1]

    def _rules(self) -> list[str]:
        """Return the rules to plan: of many users those that are quick and promise most."""
        users, rules = self.world.population.num_users, quick_rules(self._problem("none"))
        if users <= _MANY_USERS:
            return rules
        slow = [name for name in rules if not find_rule(name).scales]
        promise = {}
        for name in rules:
            if name not in slow:
                clustering = cluster(self._problem(name))
                found = self.at(name, clustering, self.best_alone())
                self._first[name] = clustering, found
                promise[name] = np.inf if found is None else delay_of(found)
        kept = sorted(promise, key=lambda name: promise[name])[:_PLANNED_OF_MANY]
        self.notes.append(
            f"more than {_MANY_USERS:,} users: of {', '.join(promise)} the best two by one pass are planned with two"
            + (f"; {', '.join(slow)} not tried, name it to plan with it (clustering.rule)" if slow else "")
        )
        return list(dict.fromkeys([*kept, "none"]))

    def _problem(self, rule: str) -> Problem:
        return self.world.problem(self.world.scenario.clustering.model_copy(update={"rule": rule}))

    def _of_rule(self, rule: str, previous: SharingPlan | None) -> Candidate | None:
        """Return the best candidate of a rule, found once; None: the target is not reachable."""
        if (rule, previous) not in self._found:
            self._found[rule, previous] = self._planned_rule(rule, previous)
        return self._found[rule, previous]

    def _planned_rule(self, rule: str, previous: SharingPlan | None) -> Candidate | None:
        problem = self._problem(rule)
        if not allocates(rule):
            if from_server(rule):
                problem = replace(problem, server_volume=self._received_under_daca())
            clustering = cluster(problem)
            found = [self.at(rule, clustering, epochs) for epochs in self.choices]
            return min(filter(None, found), key=delay_of, default=None)
        start = _ratios(problem)
        if previous is not None:
            former = match_users(previous, self.world.population.num_users, self.world.population.names)
            start = _carried_ratios(problem, former.head_of, former.shared)
        return self._best_of_passes(rule, problem, start)

    def _received_under_daca(self) -> float | None:
        """Return the samples that a member receives on average under DACA as planned; None: there is no such plan."""
        compared = self._of_rule("daca", None)
        return None if compared is None else matched_volume(self._refined(compared).result.clustering)

    def carried(self, previous: SharingPlan) -> Candidate | None:
        """Return the best candidate with the clusters of another plan, as far as links exist; None: no clusters."""
        if not len(previous.heads):
            return None
        former = match_users(previous, self.world.population.num_users, self.world.population.names)
        problem = _with(self._problem(previous.rule), composition=previous.composition)
        heads = np.intersect1d(former.head_of, np.arange(problem.num_users))
        allowed = np.floor(self.world.fleet.devices.consent * problem.skew.sizes + ROUNDING)
        volumes = problem.volumes.copy()
        volumes[heads] = np.minimum(former.shared[heads], allowed[heads])
        clustering = _carried_clustering(replace(problem, volumes=volumes), former.head_of)
        epochs = previous.local_epochs if previous.local_epochs in self.choices else self.best_alone()
        best = self.climb(previous.rule, clustering, epochs)
        return best and self._refined(best)

    def _best_of_passes(self, rule: str, problem: Problem, ratios: Floats) -> Candidate | None:
        """Repeat clustering and allocation until no offer gives new clusters; return the best with the passes."""
        found, seen, offers, epochs = list[Candidate](), set[bytes](), [ratios], self.best_alone()
        passes = problem.settings.max_passes
        for _ in range(min(passes, _PASSES_OF_MANY) if self.many else passes):
            known: Candidate | None = None
            clustering: Clustering | None
            if not seen and rule in self._first and np.array_equal(ratios, _ratios(problem)):
                clustering, known = self._first[rule]
                seen.add(clustering.head_of.tobytes())
            elif (clustering := _unseen(problem, offers, seen)) is None:
                break
            first = len(seen) == 1
            candidate = self.climb(rule, clustering, epochs, known) if first else self.at(rule, clustering, epochs)
            if candidate is None:
                break
            found.append(candidate)
            epochs, offers = candidate.local_epochs, self._solved_ratios(problem, candidate.result)
        best = min(found, key=delay_of, default=None)
        if best is not None and best is not found[0]:  # the first has been compared with its neighbours
            best = self.climb(rule, best.result.clustering, best.local_epochs, best)
        return best and replace(best, passes=len(seen))

    def climb(self, rule: str, clustering: Clustering, epochs: int, known: Candidate | None = None) -> Candidate | None:
        """Return the best candidate of some clusters, from given local epochs to neighbouring ones while that helps.

        Delay against local epochs has one minimum: rounds fall ever more slowly while the delay of a round rises.
        """
        best = known or self.at(rule, clustering, epochs)
        for step in (1, -1):
            place = self.choices.index(epochs) + step
            while 0 <= place < len(self.choices):
                tried = self.at(rule, clustering, self.choices[place])
                if best is not None and (tried is None or delay_of(tried) >= delay_of(best)):
                    break
                best, place = tried, place + step
        return best

    def at(self, rule: str, clustering: Clustering, epochs: int, max_asr: float | None = None) -> Candidate | None:
        """Return the candidate of some clusters at given local epochs; None: the target is not reachable."""
        try:
            return Candidate(rule, epochs, self.allocate(clustering, epochs, max_asr=max_asr, quick=True))
        except NotReachableError as error:
            self._failures.append(error)
            return None

    def _solved_ratios(self, problem: Problem, result: AllocationResult) -> list[Floats]:
        """Return the offers for the next pass: heads at their solved ratios, the others at the heads' mean.

        A head solved to 0 cannot be a head in the next pass, and lowers the mean. That is tried first, since it was
        mostly a bad head. If it gives nothing new, all users but the heads that share are offered again: at the mean
        of these heads, then at the ratio that planning started with.
        """
        heads = result.clustering.heads
        solved = result.shared[heads] / problem.skew.sizes[heads]
        shares = solved > 0
        offers = [self._offer(_ratios(problem), heads[shares], solved[shares])]
        if shares.any():
            offers.insert(0, self._offer(solved[shares].mean(), heads[shares], solved[shares]))
        if not shares.all():
            offers.insert(0, self._offer(solved.mean(), heads, solved))
        return offers

    def _offer(self, others: ArrayLike, heads: Ints, solved: Floats) -> Floats:
        """Return ratios of all users: some heads as solved, the others as given, as far as they consent."""
        ratios: Floats = np.minimum(others, self.world.fleet.devices.consent)
        ratios[heads] = solved
        return ratios


def _with(problem: Problem, **settings: str) -> Problem:
    return replace(problem, settings=problem.settings.model_copy(update=settings))


def _unseen(problem: Problem, offers: Sequence[Floats], seen: set[bytes]) -> Clustering | None:
    """Return clusters of the first offer (ratios of all users) that gives clusters not seen before."""
    for ratios in offers:
        offered = replace(problem, volumes=np.floor(ratios * problem.skew.sizes + ROUNDING))
        if seen and not enough_can_share(offered, offered.settings.rule):
            continue  # only the first offer is what a scenario says
        clustering = cluster(offered)
        if (key := clustering.head_of.tobytes()) not in seen:
            seen.add(key)
            return clustering
    return None


def _ratios(problem: Problem) -> Floats:
    sizes = problem.skew.sizes
    return np.divide(problem.volumes, sizes, out=np.zeros(len(sizes)), where=sizes > 0)


def _carried_ratios(problem: Problem, head_of: Ints, shared: Ints) -> Floats:
    """Return start ratios: those of the previous plan for its heads, as far as they are allowed."""
    ratios, sizes = _ratios(problem), problem.skew.sizes
    heads = np.intersect1d(head_of, np.flatnonzero(sizes > 0))
    ratios[heads] = np.minimum(shared[heads] / sizes[heads], 1.0)
    return np.where(problem.volumes > 0, ratios, 0.0)


def _carried_clustering(problem: Problem, head_of: Ints) -> Clustering:
    """Return the previous clusters without users that left and links that no longer exist."""
    head_of = head_of[: problem.num_users].copy()
    head_of[head_of >= problem.num_users] = -1
    able = (head_of >= 0) & (problem.volumes[head_of] > 0)
    linked = Clustering(problem, np.where(able, head_of, -1), ignores_graph=True).links >= 0
    return Clustering(problem, np.where(able & linked, head_of, -1))
