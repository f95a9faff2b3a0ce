"""Volumes chosen with rounds that depend on skew and local work (form `law`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from fedcast.allocation import evaluate, find_method, solve
from fedcast.allocation.average_skew import OwnOffer
from fedcast.allocation.engine import rounds_and_gradient
from fedcast.clustering import Clustering
from fedcast.clustering.sample_problems import table_problem
from fedcast.plan import make_plan
from fedcast.rounds import load_fit, local_steps
from fedcast.scenario import Allocation, load_scenario
from fedcast.testing.allocation import REGIMES, fleet_at, random_case

LAW = load_fit("mnist").law(0.95).model("mnist", 0.1)


def problem_of(seed, regime="mixed", epochs=1, **settings):
    case = random_case(seed, regime=regime)
    # Few samples for each user: batches of one make them as many steps as the fit covers.
    fleet = replace(case.fleet, local_epochs=epochs)
    allowed = Allocation.model_validate({"max_sharing_ratio": 1.0, **settings})
    return replace(case, model=LAW, fleet=fleet).problem(allowed, batch_size=1, beta_samples=20)


def test_gradients_are_those_of_the_expected_rounds():
    problem = problem_of(0)
    draw = np.random.default_rng(1)
    x, step = draw.uniform(0.2, 0.8, problem.num_clusters), 1e-6
    rounds, gradient = rounds_and_gradient(problem, problem.at(x), problem.betas)
    assert rounds > 0
    for cluster in range(problem.num_clusters):
        moved = x.copy()
        moved[cluster] += step
        change = problem.at(moved).expected(problem.betas).rounds - rounds
        assert gradient[cluster] == pytest.approx(change / step, rel=1e-3, abs=1e-6)


def test_local_steps_of_the_search_are_those_of_the_evaluation():
    problem = problem_of(2, epochs=3)
    volumes = problem.volumes_of_users(np.full(problem.num_clusters, 0.5))
    result = evaluate(problem, volumes)
    own, after = problem.clustering.problem.skew.sizes, result.clustering.after.sizes
    assert result.steps == pytest.approx(local_steps(own, after, 3, 1), rel=1e-12)
    assert problem.at(np.full(problem.num_clusters, 0.5)).skew_at.steps == pytest.approx(result.steps, rel=1e-9)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("epochs", [1, 2])
def test_another_number_of_epochs_needs_no_new_problem(regime, epochs):
    anew, reused = problem_of(4, regime, epochs, max_asr=0.2), problem_of(4, regime, 3, max_asr=0.2).with_epochs(epochs)
    assert reused.fleet.local_epochs == epochs
    assert reused.betas.betas.tolist() == anew.betas.betas.tolist()
    for ratio in (0.0, 0.3, 1.0):
        x = np.full(anew.num_clusters, ratio)
        made, kept = anew.at(x), reused.at(x)
        assert kept.round_s == made.round_s
        assert kept.skew_at.steps == pytest.approx(made.skew_at.steps, rel=1e-12)
        assert reused.objective_s(kept) == pytest.approx(anew.objective_s(made), rel=1e-12)
    settings = Allocation(method="saa")
    made, kept = solve(anew, settings), solve(reused, settings)
    assert kept.shared.tolist() == made.shared.tolist()
    assert kept.objective_s == pytest.approx(made.objective_s, rel=1e-12)
    assert kept.frequency_hz == pytest.approx(made.frequency_hz, rel=1e-12)


def test_epochs_outside_the_fit_never_cost_rounds():
    """Beyond the local steps of the runs rounds follow a power between -1 and 0."""
    problem = problem_of(0)
    rounds = [problem.with_epochs(epochs).at(problem.start()).expected(problem.betas).rounds for epochs in (50, 100)]
    assert (rounds[0] - 0.5) / 2 <= rounds[1] - 0.5 <= rounds[0] - 0.5


def test_the_same_users_train_with_any_number_of_epochs():
    """A user without samples that would keep rounds of one epoch waiting, but none of twenty, does not train."""
    counts = [[300, 300], [600, 0], [0, 600], [0, 0]]
    clustering = Clustering(table_problem(counts, [(0, 1), (0, 2), (0, 3)], composition="own"), np.array([-1, 0, 0, 0]))
    fleet = fleet_at(np.full((4, 2), 300.0), *REGIMES["frequency"])
    fleet = replace(fleet, links=replace(fleet.links, up_s_per_bit=fleet.links.up_s_per_bit * [1, 1, 1, 5]))
    case = replace(random_case(0), clustering=clustering, fleet=fleet, rate_bps=np.full(4, 1e6))
    once = case.problem()
    often = replace(case, fleet=replace(fleet, local_epochs=20)).problem()
    assert once.feasible.delay.floor_s < fleet.upload_s[3] < often.feasible.delay.floor_s
    assert once.trained.tolist() == often.trained.tolist() == [True, True, True, False]


def test_a_search_starts_at_given_volumes_within_the_limits():
    problem = problem_of(3, max_asr=0.1)
    found = solve(problem, Allocation(method="saa"))
    again = problem.with_start(found.volumes)
    assert again.start() == pytest.approx(found.volumes[problem.clustering.heads] / problem.feasible.sizes)
    halved = again.with_max_asr(0.05)
    assert halved.feasible.leak @ halved.start() == pytest.approx(0.05)
    assert solve(again, Allocation(method="saa", steps=1)).objective_s <= found.objective_s * (1 + 1e-9)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", ["jfvo", "smm", "saa"])
def test_methods_find_the_optimum_of_a_general_solver(regime, method):
    """SLSQP from several starts on the same objective, with the maxima as constraints of two more variables."""
    gaps = []
    for seed in range(3):
        problem = problem_of(seed, regime)
        found = problem.objective_s(problem.at(find_method(method)(problem).x))
        bounds = [(0, upper) for upper in problem.feasible.upper]
        starts = [np.zeros(len(bounds)), *(part * problem.feasible.upper for part in (0.3, 0.7, 1.0))]
        best = min(
            minimize(lambda x, p=problem: p.objective_s(p.at(x)), start, bounds=bounds, method="Powell").fun
            for start in starts
        )
        gaps.append(found / best - 1)
    assert np.mean(gaps) < 0.005
    assert max(gaps) < 0.02


def test_sharing_that_lowers_no_skew_saves_rounds_with_the_law_alone():
    """All users hold the same distribution, so that volumes change local steps and nothing else."""
    problem = problem_of(1, "frequency")
    same = replace(
        problem.averages,
        own=np.zeros_like(problem.averages.own),
        offer=OwnOffer(np.zeros((problem.num_clusters, len(problem.averages.global_distribution)))),
    )
    flat = replace(problem, averages=same)
    none, half = (flat.at(np.full(flat.num_clusters, ratio)) for ratio in (0.0, 0.5))
    rest = same.rest / none.skew_at.denominator
    assert none.skew_at.skew == pytest.approx(rest)
    assert half.skew_at.steps > none.skew_at.steps
    theory = load_fit("paper-0.95").model("paper", 100.0).draw(5, up_to=1.0)
    level = {"skew": 0.5, "shift": 0.0}
    assert theory.expected(**level, steps=half.skew_at.steps) == theory.expected(**level, steps=none.skew_at.steps)
    saved = [problem.betas.expected(**level, steps=point.skew_at.steps).rounds for point in (none, half)]
    assert saved[1] < saved[0]


def test_a_plan_knows_that_epochs_and_learning_rate_save_rounds():
    def rounds(**changes):
        given = {"rounds.fit": "digits", "rounds.form": "law", "rounds.target_accuracy": 0.87, **changes}
        return make_plan(load_scenario(base="digits", overrides=given), with_curve=False)

    plan = rounds(**{"training.local_epochs": 5, "training.learning_rate": 0.1, "clustering.rule": "daca"})
    assert plan.rounds < plan.rounds_without
    longer = {"training.local_epochs": 10, "training.learning_rate": 0.1, "clustering.rule": "none"}
    assert rounds(**longer).rounds_without < plan.rounds_without
    faster = {"training.local_epochs": 5, "training.learning_rate": 0.3, "clustering.rule": "none"}
    assert rounds(**faster).rounds_without < plan.rounds_without
    assert plan.form == "law"


def test_fixed_ratios_are_planned_where_the_law_does_not_reach():
    overrides = {"training.learning_rate": 9.0, "allocation.method": "fixed", "clustering.rule": "daca"}
    plan = make_plan(load_scenario(base="digits", overrides=overrides), with_curve=False)
    assert plan.rounds is None
    assert "training.learning_rate = 9: fit 'digits' covers 0.05 to 0.4" in plan.not_predicted
