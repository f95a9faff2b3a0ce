"""Test the objective that the searches evaluate against the packages that define it, and its derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import entropy

from fedcast.allocation import Surrogate, average_skew, evaluate, find_method
from fedcast.allocation.average_skew import BalancedOffer, js_of_members, kl_of_members
from fedcast.allocation.engine import StochasticOptions
from fedcast.clustering import water_fill
from fedcast.cost import best_frequency_hz, compute_energy_j, compute_s, round_cost
from fedcast.data import average_emd, average_js, average_kl, distribution_shift, js_divergence, mix_distributions
from fedcast.errors import FedcastError
from fedcast.scenario import Allocation
from fedcast.testing.allocation import random_case

FREE = Allocation(max_sharing_ratio=1.0)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
@pytest.mark.parametrize("measure", ["emd", "js", "kl"])
def test_average_skew_and_shift_are_those_after_sharing(weighting, composition, measure):
    world = random_case(3, weighting=weighting, composition=composition, data="dirichlet")
    world = replace(world, model=replace(world.model, measure=measure))
    problem = world.problem(FREE)
    for seed in range(3):
        x = np.random.default_rng(seed).uniform(0, 1, problem.num_clusters) * problem.feasible.upper
        volumes = problem.volumes_of_users(x)
        before = world.clustering.problem.skew
        sent = world.clustering.with_volumes(volumes).problem.sent_distributions
        after = mix_distributions(before, world.clustering.head_of, volumes, sent)
        average = {"emd": average_emd, "js": average_js, "kl": average_kl}[measure](before, after, weighting)
        skewness = problem.at(x).skew_at
        assert skewness.skew == pytest.approx(average, rel=1e-12)
        assert skewness.shift == pytest.approx(distribution_shift(after), rel=1e-9)
        assert problem.objective_s(problem.at(x)) == pytest.approx(evaluate(problem, volumes).objective_s, rel=1e-12)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
@pytest.mark.parametrize("measure", ["emd", "js", "kl"])
def test_gradients_are_those_of_the_averages(weighting, composition, measure):
    world = random_case(4, weighting=weighting, composition=composition, data="dirichlet")
    problem = replace(world, model=replace(world.model, measure=measure)).problem(FREE)
    volumes = np.random.default_rng(0).uniform(0.2, 0.7, problem.num_clusters) * problem.feasible.sizes
    here, step = problem.averages.at(volumes), 1e-4
    for cluster in range(problem.num_clusters):
        moved = np.eye(problem.num_clusters)[cluster] * step
        after, before = problem.averages.at(volumes + moved), problem.averages.at(volumes - moved)
        slopes = (after.skew - before.skew) / (2 * step), (after.shift - before.shift) / (2 * step)
        assert here.skew_gradient[cluster] == pytest.approx(slopes[0], rel=1e-5, abs=1e-10)
        assert here.shift_gradient[cluster] == pytest.approx(slopes[1], rel=1e-5, abs=1e-10)


def test_the_compiled_loop_gives_the_same(monkeypatch):
    problem = random_case(5, weighting="B", data="mixed").problem(FREE)
    volumes = 0.3 * problem.feasible.sizes
    plain = problem.averages.at(volumes)
    monkeypatch.setattr(average_skew, "LARGE", 1)
    for ours, theirs in zip(problem.averages.at(volumes), plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any), st.floats(0, 1))
def test_a_balanced_offer_is_a_water_fill(counts, part):
    table, whole = np.array([counts], float), np.full(len(counts), 1 / len(counts))
    volume = np.array([part * sum(counts)])
    sent, slope = BalancedOffer(table, whole).at(volume)
    np.testing.assert_allclose(sent, water_fill(table, volume) - volume * whole, atol=1e-9)
    if part < 0.999:
        step = 1e-7 * sum(counts)
        ahead = BalancedOffer(table, whole).at(volume + step)[0]
        assert slope.sum() == pytest.approx(0, abs=1e-12)
        assert np.abs((ahead - sent) / step - slope).max() < 1e-3


def test_an_empty_member_has_the_skew_of_what_it_would_receive():
    empty = np.zeros((1, 2)), np.array([[0.5, -0.5]]), np.zeros(1), np.array([0.5, 0.5])
    assert average_skew.emd_of_members(*empty)[0].tolist() == [1.0]
    assert js_of_members(*empty)[0][0] == pytest.approx(js_divergence([1.0, 0.0], [0.5, 0.5]))
    assert kl_of_members(*empty)[0][0] == pytest.approx(np.log(2))


def test_kl_of_members_is_scipys_also_where_a_class_is_missing_everywhere():
    held, whole = np.array([[30.0, 0.0, 10.0, 0.0]]), np.array([0.2, 0.5, 0.3, 0.0])
    mixed = held - held.sum() * whole
    found = kl_of_members(mixed, np.zeros((1, 4)), np.array([40.0]), whole)
    assert found[0][0] == pytest.approx(entropy(held[0, :3] / 40, whole[:3]))
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("regime", ["energy", "mixed", "frequency"])
@pytest.mark.parametrize("uplink", ["parallel", "waves"])
def test_the_delay_of_a_round_is_that_of_the_cost_room(regime, uplink):
    world = random_case(6, regime)
    fleet = replace(world.fleet, cellular=world.fleet.cellular.model_copy(update={"uplink": uplink}))
    problem = replace(world, fleet=fleet).problem(FREE)
    delay, sizes = problem.feasible.delay, problem.feasible.sizes
    for seed in range(4):
        volumes = np.random.default_rng(seed).uniform(0, 1, problem.num_clusters) * sizes
        after = world.clustering.with_volumes(problem.volumes_of_users(volumes / sizes)).after
        expected = round_cost(fleet, after.sizes).round_s
        assert delay.at(volumes) == pytest.approx(expected, rel=1e-12)
        caps, slopes = delay.caps(expected)
        assert (volumes <= caps * (1 + 1e-9)).all()
        finite = np.isfinite(caps)
        if expected > delay.floor_s * (1 + 1e-9):
            assert delay.at(np.where(finite, caps, 0)) == pytest.approx(expected, rel=1e-9)
            ahead = delay.caps(expected * (1 + 1e-7))[0]
            differences = (ahead[finite] - caps[finite]) / (expected * 1e-7)
            np.testing.assert_allclose(differences[caps[finite] > 0], slopes[finite][caps[finite] > 0], rtol=1e-4)


@given(st.floats(1e6, 1e10), st.floats(1e-4, 1.0), st.floats(1e8, 3e9), st.floats(1e-28, 4e-26))
def test_the_frequency_is_the_one_a_minimiser_finds(cycles, energy_j, most_hz, coefficient):
    def seconds(frequency):
        too_much = compute_energy_j(cycles, frequency, coefficient) > energy_j
        return 1e30 * frequency if too_much else float(compute_s(cycles, frequency))

    found = minimize_scalar(seconds, bounds=(1.0, most_hz), method="bounded", options={"xatol": 1e-3}).x
    best = float(best_frequency_hz(cycles, energy_j, most_hz, coefficient))
    assert compute_energy_j(cycles, best, coefficient) <= energy_j * (1 + 1e-9)
    assert seconds(best * (1 - 1e-12)) <= seconds(found) * (1 + 1e-9)


def test_volumes_beyond_use_are_cut_off_and_nothing_is_lost():
    problem = random_case(0, weighting="B").problem(FREE)
    assert (problem.feasible.upper < 0.9).any()
    draw = np.random.default_rng(1)
    for cluster in np.flatnonzero(problem.feasible.upper < 0.9):
        # Whatever the others do, sending all is no better than sending what is worthwhile.
        x = draw.uniform(0, 1, problem.num_clusters) * problem.feasible.upper
        x[cluster] = problem.feasible.upper[cluster]
        more = x.copy()
        more[cluster] = 1.0
        assert problem.at(x).skew_at.skew < problem.at(more).skew_at.skew


def test_exponents_of_step_sizes_are_checked():
    smm, problem = find_method("smm"), random_case(0, num_users=12).problem()
    for exponent in (0.5, 1.2):
        with pytest.raises(FedcastError, match=f"exponent {exponent}"):
            smm(problem, smm.options(surrogate_exponent=exponent))
    with pytest.raises(ValueError, match=r"value 0.6 for iterate_exponent: expected .* above surrogate_exponent = 0.6"):
        StochasticOptions(surrogate_exponent=0.6, iterate_exponent=0.6)


def test_mixing_surrogates_mixes_their_values():
    draw = np.random.default_rng(0)
    x, rate = draw.random(4), draw.random(4)

    def value(g: Surrogate) -> float:
        return g.sharing_weight * (x / rate).max() + g.round_weight * 7.0 + g.linear @ x + g.curvature @ x**2 / 2

    old, new = (Surrogate(*draw.random(2), draw.normal(size=4), draw.random(4)) for _ in range(2))
    assert value(old.averaged(0.3, new)) == pytest.approx(0.7 * value(old) + 0.3 * value(new))
