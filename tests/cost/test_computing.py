"""Computing time and energy, and the best frequency against a solver."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from fedcast import cost

CYCLES = 2.5e5 * 600


@pytest.mark.parametrize(
    ("coefficient", "energy_j", "capped_hz", "capped_s"),
    [(4e-26, 8.64, 28.9e6, 5.20), (1e-27, 0.216, 183e6, 0.82), (1e-28, 21.6e-3, 577e6, 0.26)],
)
def test_computing_600_samples(coefficient, energy_j, capped_hz, capped_s):
    assert cost.compute_s(CYCLES, 1.2e9) == pytest.approx(0.125)
    assert cost.compute_energy_j(CYCLES, 1.2e9, coefficient) == pytest.approx(energy_j, rel=1e-3)
    frequency = cost.best_frequency_hz(CYCLES, 0.005, 1.2e9, coefficient)
    assert frequency == pytest.approx(capped_hz, rel=3e-3)
    assert cost.compute_s(CYCLES, frequency) == pytest.approx(capped_s, abs=6e-3)


def test_energy_coefficient_at_which_5_mj_reach_the_highest_frequency():
    assert cost.compute_energy_j(CYCLES, 1.2e9, 2.31e-29) == pytest.approx(0.005, rel=3e-3)


positive = st.floats(1e-6, 1e-1)


@given(st.floats(1e6, 1e10), positive, st.floats(1e8, 5e9), st.sampled_from([4e-26, 1e-27, 1e-28]))
def test_the_best_frequency_is_where_the_energy_is_spent(cycles, energy, highest, coefficient):
    """The highest frequency with f <= f_max and the energy within its limit, by bisection of the energy."""

    def excess(frequency):
        return cost.compute_energy_j(cycles, frequency, coefficient) / energy - 1

    best = highest if excess(highest) <= 0 else optimize.brentq(excess, 0.0, highest, xtol=1e-3, rtol=1e-12)
    ours = cost.best_frequency_hz(cycles, energy, highest, coefficient)
    assert ours == pytest.approx(best, rel=1e-6)
    assert cost.compute_energy_j(cycles, ours, coefficient) <= energy * (1 + 1e-12)


@given(st.floats(1, 1e12), positive, st.floats(1e8, 5e9), st.sampled_from([4e-26, 1e-28]))
def test_fastest_computing_is_the_printed_maximum(cycles, energy, highest, coefficient):
    printed = max(cycles / highest, cycles**1.5 * math.sqrt(coefficient / energy))
    assert cost.fastest_compute_s(cycles, energy, highest, coefficient) == pytest.approx(printed, rel=1e-12)


@given(st.lists(st.just(0.0) | st.floats(1, 1e12), min_size=3, max_size=3), st.floats(-0.1, 0.1))
def test_fastest_computing_is_convex_and_never_nan(cycles, energy):
    low, middle, high = sorted(cycles)
    weight = 0.5 if high == low else (high - middle) / (high - low)
    at_low, at_middle, at_high = cost.fastest_compute_s([low, middle, high], energy, 1.2e9, 1e-28)
    assert not np.isnan([at_low, at_middle, at_high]).any()
    if np.isfinite(at_high):
        assert at_middle <= (weight * at_low + (1 - weight) * at_high) * (1 + 1e-9)


@pytest.mark.parametrize("energy", [0.0, -1.0])
def test_without_energy_only_empty_users_finish(energy):
    assert cost.best_frequency_hz([CYCLES, 0.0], energy, 1.2e9, 1e-28).tolist() == [0.0, 1.2e9]
    assert cost.fastest_compute_s([CYCLES, 0.0], energy, 1.2e9, 1e-28).tolist() == [np.inf, 0.0]
