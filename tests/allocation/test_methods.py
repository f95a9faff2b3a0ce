"""The methods against each other, against brute force, and against what must hold for any optimum."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast.allocation import METHODS, allocate, evaluate, make_result
from fedcast.allocation.oracle import oracle
from fedcast.allocation.oracle.cost_table import cheapest_volumes, cluster_table, least_skew
from fedcast.clustering import Clustering, cluster
from fedcast.clustering.sample_problems import disc_problem, path_problem, table_problem
from fedcast.cost import round_cost
from fedcast.data import average_emd, average_js, average_kl
from fedcast.errors import FedcastError
from fedcast.rounds import fit_rounds
from fedcast.scenario import Allocation
from fedcast.testing.allocation import BITS_PER_SAMPLE, REGIMES, fleet_at, random_case

FREE = Allocation(max_sharing_ratio=1.0)


def best_of(problem, method):
    return problem.objective_s(problem.at(METHODS[method](problem).x))


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("weighting", ["B", "C"])
def test_jfvo_is_quick_and_as_good_as_its_rivals(regime, weighting):
    literal, ours, distances = [], [], []
    for seed in range(3):
        problem = random_case(seed, regime, weighting=weighting).problem(FREE, seed=seed)
        found = METHODS["jfvo"](problem)
        value = problem.objective_s(problem.at(found.x))
        values = np.array([step.objective_s for step in found.trace])
        assert len(values) == 61
        distances.append(np.abs(values[6:] / value - 1).max())
        assert value <= min(best_of(problem, "smm"), best_of(problem, "saa")) * 1.001
        assert value <= best_of(problem, "oracle") * 1.001
        ours.append(value)
        literal.append(best_of(problem, "jfvo_literal"))
    # The largest useful volume is a kink of the EMD, where the last bit of a sum decides the sign of the subgradient:
    # with weighting B, the mixed regime and seed 1, step 3 moves away on some processors and hardly moves on others.
    assert np.median(distances) < 0.01
    assert max(distances) < 0.05
    if regime != "frequency":
        assert np.mean(literal) > 1.01 * np.mean(ours)


def test_jfvo_leaves_local_optima_of_balanced_heads():
    problem = random_case(0, "mixed", num_users=120, reach_m=400, rule="gain", weighting="B", data="mixed").problem(
        FREE
    )
    assert best_of(problem, "jfvo") <= min(best_of(problem, "oracle"), best_of(problem, "saa")) * 1.001


def tiny(seed: int, weighting: str, composition: str, regime: str):
    """Two heads with two members each."""
    draw = np.random.default_rng(seed)
    counts = np.stack([draw.multinomial(600, draw.dirichlet(np.full(4, a))) for a in (5, 0.3, 0.3, 5, 0.3, 0.3)])
    links = [(0, 1), (0, 2), (3, 4), (3, 5)]
    problem = table_problem(counts, links, weighting=weighting, composition=composition)
    clustering = Clustering(problem, np.array([-1, 0, 0, -1, 3, 3]))
    world = random_case(0)
    places = draw.uniform(-500, 500, (6, 2))
    rate = np.where(clustering.head_of == 0, 8e5, 2e6)
    return replace(world, clustering=clustering, fleet=fleet_at(places, *REGIMES[regime]), rate_bps=rate)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
def test_the_oracle_against_brute_force(weighting, composition):
    for seed, regime in enumerate(REGIMES):
        problem = tiny(seed, weighting, composition, regime).problem(FREE, beta_samples=20)
        grid = np.linspace(0, 1, 41)
        values = [
            problem.objective_s(problem.at(np.array(x) * problem.feasible.upper))
            for x in itertools.product(grid, repeat=2)
        ]
        best = problem.objective_s(problem.at(oracle(problem).x))
        nothing = values[0]
        assert best <= min(values) + 1e-6 * min(values)
        # Brute force is off by its grid, a fortieth of the range of each volume, at most.
        assert best >= min(values) - 0.02 * (max(values) - min(values)) - 1e-9 * nothing


@pytest.mark.parametrize(("measure", "average"), [("js", average_js), ("kl", average_kl)])
def test_jfvo_on_other_measures_against_brute_force(measure, average):
    for seed, regime in enumerate(REGIMES):
        world = tiny(seed, "B", "balanced", regime)
        pole = 1.05 * average(world.clustering.problem.skew)
        steep = {"form": "theory", "beta": np.array([pole**2, pole**2]), "relative_noise": 0.0}
        problem = replace(world, model=replace(world.model, measure=measure, **steep)).problem(FREE, beta_samples=1)
        grid = itertools.product(np.linspace(0, 1, 41), repeat=2)
        tried = [problem.objective_s(problem.at(np.array(x) * problem.feasible.upper)) for x in grid]
        assert min(tried) < 0.9 * tried[0]
        assert best_of(problem, "jfvo") <= min(tried) * 1.001
        assert best_of(problem, "oracle") <= min(tried) * (1 + 1e-6)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
def test_the_least_skew_within_caps_against_brute_force(weighting, composition):
    for seed in range(3):
        problem = tiny(seed, weighting, composition, "mixed").problem(FREE, beta_samples=20)
        most = problem.feasible.upper * problem.feasible.sizes
        table = cluster_table(problem, 257)
        caps = np.array([[0.3, 0.9], [1.0, 0.5], [0.05, 1.0]]) * most
        found = least_skew(table, caps, np.linspace(0, 2, 101))
        for cap, skew in zip(caps, found, strict=True):
            tried = [problem.averages.at(np.array(v)).skew for v in itertools.product(*np.linspace(0, cap, 41).T)]
            assert min(tried) - 2e-3 <= skew <= min(tried) + 1e-4
            volumes = cheapest_volumes(table, cap, float(skew))
            assert (volumes <= cap * (1 + 1e-12)).all()
            assert problem.averages.at(volumes).skew == pytest.approx(skew, abs=2e-4)


@settings(max_examples=5)
@given(st.integers(0, 50), st.sampled_from(list(REGIMES)), st.floats(1.05, 4), st.sampled_from(["B", "C"]))
def test_more_energy_or_a_faster_sidelink_never_costs_time(seed, regime, factor, weighting):
    world = random_case(seed, regime, num_users=30, weighting=weighting)
    devices = world.fleet.devices
    richer = replace(
        world, fleet=replace(world.fleet, devices=replace(devices, energy_budget_j=factor * devices.energy_budget_j))
    )
    faster = replace(world, rate_bps=factor * world.rate_bps)
    optimum = best_of(world.problem(FREE), "oracle")
    assert best_of(richer.problem(FREE), "oracle") <= optimum * (1 + 1e-4)
    assert best_of(faster.problem(FREE), "oracle") <= optimum * (1 + 1e-4)
    assert best_of(richer.problem(FREE), "jfvo") <= optimum * 1.002
    assert best_of(faster.problem(FREE), "jfvo") <= optimum * 1.002


@pytest.mark.parametrize("method", ["jfvo", "smm", "saa", "oracle"])
def test_nothing_is_shared_when_sharing_cannot_pay(method):
    # A sidelink so slow that one sample takes longer than the whole task.
    world = random_case(1, "mixed")
    slow = replace(world, rate_bps=world.rate_bps * 1e-6)
    # Heads as skewed as can be: everybody's distance grows.
    skewed = table_problem([[100, 0], [50, 50], [50, 50], [0, 100]], [(0, 1), (0, 2)], composition="own", weighting="C")
    useless = replace(
        world,
        clustering=Clustering(skewed, np.array([-1, 0, 0, -1])),
        fleet=fleet_at(np.full((4, 2), 300.0), 0.05, 4e-27),
        rate_bps=np.full(4, 1e6),
    )
    for case in (slow, useless):
        settings = Allocation(method=method, max_sharing_ratio=1.0)
        result = allocate(
            case.clustering, case.fleet, case.model, settings, bits_per_sample=BITS_PER_SAMPLE, rate_bps=case.rate_bps
        )
        assert result.shared.sum() == 0
        assert result.volumes.max() < 1e-6
        assert result.sharing_s == 0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_every_constraint_and_repeats_itself(method):
    world = random_case(2, "mixed", weighting="B")
    consent = np.random.default_rng(0).uniform(0, 0.5, 60)
    fleet = replace(world.fleet, devices=replace(world.fleet.devices, consent=consent))
    settings = Allocation(method=method, max_sharing_ratio=0.3, fixed_ratio=0.25, steps=20)
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps, "seed": 7}
    result = allocate(world.clustering, fleet, world.model, settings, **options)
    sizes, budget = world.clustering.problem.skew.sizes, fleet.devices.energy_budget_j
    assert (result.shared <= np.minimum(0.3, consent) * sizes).all()
    assert (result.shared[result.clustering.cluster_sizes == 0] == 0).all()
    assert (result.round.energy_j <= budget * (1 + 1e-12)).all()
    assert (result.frequency_hz <= fleet.devices.max_frequency_hz).all()
    assert result.objective_s == pytest.approx(result.sharing_s + result.rounds * result.round_s)
    again = allocate(world.clustering, fleet, world.model, settings, **options)
    assert again.shared.tolist() == result.shared.tolist()
    assert [step.objective_s for step in again.trace] == [step.objective_s for step in result.trace]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", [0.0, 0.03, 0.2])
def test_leakage_stays_within_its_limit_and_uses_it(method, limit):
    world = random_case(3, "frequency", weighting="C")
    settings = Allocation(method=method, max_sharing_ratio=0.8, fixed_ratio=0.8, max_asr=limit)
    result = allocate(
        world.clustering, world.fleet, world.model, settings, bits_per_sample=BITS_PER_SAMPLE, rate_bps=world.rate_bps
    )
    assert result.average_sharing_ratio <= limit
    if method != "jfvo_literal":
        assert result.average_sharing_ratio >= 0.9 * limit


def test_less_leakage_takes_longer():
    world, times = random_case(4, "frequency", num_users=30), []
    for limit in (0.0, 0.05, 0.2, 1.0):
        problem = world.problem(Allocation(max_sharing_ratio=1.0, max_asr=limit))
        times.append(best_of(problem, "saa"))
        assert best_of(problem, "jfvo") <= times[-1] * 1.001
    assert (np.diff(times) < 0).all()


def test_infeasible_users_are_named_or_left_out():
    world = random_case(5, "mixed", weighting="B")
    power = world.fleet.devices.power_w.copy()
    bad = np.array([3, 17, 40])
    power[bad] = 2 * world.fleet.devices.energy_budget_j[bad] / world.fleet.upload_s[bad]
    fleet = replace(world.fleet, devices=replace(world.fleet.devices, power_w=power))
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps}
    with pytest.raises(FedcastError) as refusal:
        allocate(world.clustering, fleet, world.model, **options)
    message = str(refusal.value)
    assert "3 of 60 users cannot upload within their budget" in message
    assert all(f"user {user}: the upload takes 0.1 J of a budget of 0.05 J" in message for user in bad)
    assert "is enough for all of them" in message
    result = allocate(world.clustering, fleet, world.model, Allocation(infeasible_users="exclude"), **options)
    assert result.left_out.tolist() == bad.tolist()
    assert (result.clustering.head_of[bad] == -1).all()
    assert (result.frequency_hz[bad] == 0).all()
    assert np.isfinite([result.objective_s, result.skew, result.rounds, result.round_s]).all()
    nobody = replace(fleet, devices=replace(fleet.devices, power_w=power * 0 + 1e6))
    with pytest.raises(FedcastError, match="nobody would be left to train"):
        allocate(world.clustering, nobody, world.model, Allocation(infeasible_users="exclude"), **options)


def test_the_gap_is_to_the_oracle():
    world = random_case(6, "mixed")
    settings = Allocation(method="fixed", fixed_ratio=0.1, max_sharing_ratio=1.0)
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps}
    result = allocate(world.clustering, world.fleet, world.model, settings, with_gap=True, **options)
    best = best_of(world.problem(settings), "oracle")
    assert result.gap == pytest.approx(result.relaxed_objective_s / best - 1)
    assert result.gap > 0.1
    assert result.shared[result.clustering.heads].tolist() == [60] * len(result.clustering.heads)


def test_a_fixed_ratio_is_kept_even_where_it_is_not_worthwhile():
    world = random_case(0, "energy", weighting="B")
    assert (world.problem(FREE).feasible.upper < 0.5).any()
    settings = Allocation(method="fixed", fixed_ratio=0.8, max_sharing_ratio=1.0)
    result = allocate(
        world.clustering, world.fleet, world.model, settings, bits_per_sample=BITS_PER_SAMPLE, rate_bps=world.rate_bps
    )
    assert (result.shared[result.clustering.heads] == 480).all()
    assert result.relaxed_objective_s == pytest.approx(result.objective_s)


def test_the_extended_form_is_optimised_too():
    draw = np.random.default_rng(0)
    skew, shift = draw.uniform(0, 1.7, 50), draw.uniform(0, 0.5, 50)
    model = fit_rounds(
        skew, np.exp(3 + skew + 2 * shift), shift=shift, target_accuracy=0.95, form="extended", bootstrap=10
    )
    world = replace(random_case(7, "frequency", data="mixed"), model=model)
    problem = world.problem(FREE)
    ours = best_of(problem, "jfvo")
    assert ours <= best_of(problem, "saa") * 1.001
    for seed in range(200):
        x = np.random.default_rng(seed).uniform(0, 1, problem.num_clusters) * problem.feasible.upper
        assert ours <= problem.objective_s(problem.at(x))
    with pytest.raises(FedcastError, match="the shift of the overall label distribution, which couples the clusters"):
        oracle(problem)


def test_without_clusters_there_is_nothing_to_choose():
    world = random_case(8)
    alone = replace(world, clustering=Clustering(world.clustering.problem, np.full(60, -1)))
    for method in METHODS:
        result = allocate(
            alone.clustering, world.fleet, world.model, Allocation(method=method), bits_per_sample=BITS_PER_SAMPLE
        )
        assert result.shared.sum() == 0
        assert result.objective_s == pytest.approx(result.rounds * result.round_s)


def test_wrong_options_are_refused():
    world = random_case(9)
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps}
    for change, words in [
        (
            {"settings": Allocation(method="magic")},
            "value 'magic' for allocation.method: no such allocation method; choose one of jfvo",
        ),
        ({"rate_bps": np.zeros(60)}, "0.0 bit/s from its head"),
        ({"rate_bps": np.ones(3)}, "shape .3,., expected one rate for each of 60 users"),
        ({"bits_per_sample": 0.0}, "invalid value 0.0 for data.bits_per_sample: expected a number > 0"),
    ]:
        with pytest.raises(FedcastError, match=words):
            allocate(world.clustering, world.fleet, world.model, **({"settings": FREE} | options | change))
    three = path_problem([[9, 1], [5, 5], [1, 9]])
    with pytest.raises(FedcastError, match="it has 60 users, the clustering has 3"):
        allocate(cluster(three), world.fleet, world.model, **options)


def test_a_fractional_band_can_only_be_faster_than_planned():
    world = random_case(10, "frequency")
    fleet = replace(world.fleet, cellular=world.fleet.cellular.model_copy(update={"uplink": "fractional"}))
    power = np.minimum(fleet.devices.power_w, 0.9 * fleet.devices.energy_budget_j / fleet.upload_s)
    fleet = replace(fleet, devices=replace(fleet.devices, power_w=power))
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps}
    result = allocate(world.clustering, fleet, world.model, FREE, **options)
    assert result.objective_s < result.relaxed_objective_s
    assert (result.round.energy_j <= fleet.devices.energy_budget_j * (1 + 1e-9)).all()


def test_the_server_may_have_sent_something_instead():
    problem = disc_problem(60, 700, seed=1, rule="central", weighting="B")
    clustering = cluster(problem)
    world = random_case(1, "mixed")
    result = allocate(clustering, world.fleet, world.model, bits_per_sample=BITS_PER_SAMPLE)
    assert result.shared.sum() == 0
    assert result.skew == pytest.approx(average_emd(problem.skew, clustering.after, "B"))
    assert result.round_s == pytest.approx(round_cost(world.fleet, clustering.after.sizes).round_s)


def test_whole_volumes_are_the_better_of_down_and_nearest():
    world = random_case(11, "mixed")
    problem = world.problem(Allocation(max_sharing_ratio=0.2))
    found = METHODS["saa"](problem)
    result = make_result(problem, "saa", found)
    real = problem.volumes_of_users(found.x)
    choices = [evaluate(problem, np.floor(real + 1e-9)).objective_s, evaluate(problem, np.round(real)).objective_s]
    assert result.objective_s == pytest.approx(min(choices), rel=1e-12)
    assert np.abs(result.shared - real).max() < 1
    given = make_result(problem, "fixed", found, free_rounding=False)
    assert given.shared.tolist() == np.floor(real + 1e-9).tolist()
