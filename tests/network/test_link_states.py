import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.network.link_states import blockage_probability, state_weights


@pytest.mark.parametrize(
    ("distance", "density", "radius", "height", "first", "second", "expected"),
    [
        (50, 0.1, 0.3, 1.7, 10, 1.5, 0.084778),
        (100, 0.1, 0.3, 1.7, 10, 1.5, 0.147154),
        (100, 0.3, 0.3, 1.7, 4, 1.5, 0.775527),
        (200, 0.3, 0.4, 1.7, 10, 1.5, 0.706363),
        (10, 0.1, 0.3, 1.7, 1.5, 1.5, 0.460979),
        (50, 0.1, 0.3, 1.7, 1.5, 1.5, 0.951101),
        (100, 0.1, 0.3, 1.7, 1.5, 1.5, 0.997565),
        (100, 0.01, 0.3, 1.7, 1.5, 1.5, 0.452175),
        (200, 0.01, 0.3, 1.7, 1.5, 1.5, 0.699347),
        (100, 0.1, 0.3, 1.4, 1.5, 1.5, 0.0),
    ],
)
def test_vectors(distance, density, radius, height, first, second, expected):
    crowd = {"blocker_density_per_m2": density, "blocker_radius_m": radius, "blocker_height_m": height}
    one_way = blockage_probability(distance, first_height_m=first, second_height_m=second, **crowd)
    other_way = blockage_probability(distance, first_height_m=second, second_height_m=first, **crowd)
    assert one_way == pytest.approx(expected, abs=5e-7)
    assert one_way == other_way


def test_a_drawn_crowd_blocks_as_often():
    """Monte Carlo: cylinders dropped around a path between two hand-held devices, both below head height."""
    rng = np.random.default_rng(0)
    distance, density, radius, trials = 30.0, 0.02, 0.3, 20_000
    # The formula counts people within a rectangle as long as the path and one radius, as wide as a person.
    blocked = 0
    for count in rng.poisson(density * (distance + 2) * 2, trials):
        along, across = rng.uniform(-1, distance + 1, count), rng.uniform(-1, 1, count)
        blocked += bool(((along > 0) & (along < distance + radius) & (np.abs(across) < radius)).any())
    expected = blockage_probability(
        distance,
        blocker_density_per_m2=density,
        blocker_radius_m=radius,
        blocker_height_m=1.7,
        first_height_m=1.5,
        second_height_m=1.5,
    )
    assert blocked / trials == pytest.approx(float(expected), abs=4 * 0.5 / trials**0.5)


@given(st.floats(0, 1), st.floats(0, 1))
def test_weights_are_a_distribution(los, blocked):
    weights = state_weights(los, blocked)
    assert sum(weights) == pytest.approx(1, abs=1e-15)
    assert all(weight >= 0 for weight in weights)
    nlos_blocked, los_blocked, _, los_clear = weights
    assert los_clear + los_blocked == pytest.approx(los, abs=1e-15)
    assert los_blocked + nlos_blocked == pytest.approx(blocked, abs=1e-15)
