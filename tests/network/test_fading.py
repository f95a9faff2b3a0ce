"""Test averages over fading against mpmath and scipy.integrate.quad."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fedcast.errors import FedcastError
from fedcast.network import fading
from fedcast.scenario import Cellular

DECIBELS = st.floats(-60, 60)


def ratio(decibels):
    return 10 ** (np.asarray(decibels, float) / 10)


def test_ergodic_vectors():
    expected = [0.01428548, 0.13209797, 0.86034738, 2.90651481, 5.88404823, 9.14361949]
    np.testing.assert_allclose(fading.ergodic_efficiency(ratio([-20, -10, 0, 10, 20, 30])), expected, atol=5e-9)


@pytest.mark.parametrize("decibels", [-300, -60, -30, -13.02, -13.0, -10, 0, 10, 60, 300])
def test_ergodic_to_full_precision(decibels):
    with mpmath.workdps(40):
        inverse = mpmath.mpf(10) ** (mpmath.mpf(-decibels) / 10)
        exact = float(mpmath.exp(inverse) * mpmath.expint(1, inverse) / mpmath.log(2))
    assert fading.ergodic_efficiency(ratio(decibels)) == pytest.approx(exact, rel=3e-14)


@given(DECIBELS)
def test_ergodic_against_quadrature(decibels):
    rho = ratio(decibels)
    value, _ = integrate.quad(lambda u: np.log2(1 + rho * np.exp(u)) * np.exp(u - np.exp(u)), -50, 4.5, epsabs=0)
    assert fading.ergodic_efficiency(rho) == pytest.approx(value, rel=1e-7)


@given(DECIBELS, st.floats(1e-6, 5))
def test_fading_never_helps_and_more_power_never_hurts(decibels, step):
    rho, more = ratio(decibels), ratio(decibels + step)
    assert 0 < fading.ergodic_efficiency(rho) <= fading.awgn_efficiency(rho) * (1 + 1e-15)
    assert fading.ergodic_efficiency(more) > fading.ergodic_efficiency(rho)


def test_truncated_vectors():
    expected = [28.57794174, 3.13599588, 0.52205997, 0.19017546]
    np.testing.assert_allclose(
        fading.truncated_inverse_efficiency(ratio([-10, 0, 10, 20]), 0.01), expected, rtol=0, atol=5e-9
    )


def test_the_literal_mean_grows_without_bound():
    """The mean over Rayleigh fading cut at g0 grows by ln 2 per factor e of g0, at 0 dB: it has no limit."""
    cuts = np.array([1e-2, 1e-4, 1e-8])
    means = [fading.truncated_inverse_efficiency(1.0, -np.expm1(-cut)).item() for cut in cuts]
    np.testing.assert_allclose(means, [3.139, 6.297, 12.681], atol=1e-3)
    assert (means[2] - means[1]) / np.log(1e4) == pytest.approx(np.log(2), rel=1e-3)


@given(DECIBELS, st.floats(1e-4, 0.9))
def test_truncated_against_quadrature(decibels, outage):
    rho, weakest = ratio(decibels), -np.log1p(-outage)

    def integrand(u):
        return np.log(2) / np.log1p(rho * np.exp(u)) * np.exp(u + weakest - np.exp(u))

    value, _ = integrate.quad(integrand, np.log(weakest), np.log(weakest + 45), epsabs=0, limit=400)
    assert fading.truncated_inverse_efficiency(rho, outage) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    ("shape", "decibels", "expected"),
    [
        (2, [-10, 0, 10, 20, 30], [14.20412731, 1.69642223, 0.36942405, 0.16635713, 0.10620771]),
        (3, [-10, 0, 10, 20, 30], [10.73835443, 1.34885571, 0.33114077, 0.15953891, 0.10392368]),
        (1.5, [0], [2.39048175]),
    ],
)
def test_nakagami_vectors(shape, decibels, expected):
    np.testing.assert_allclose(fading.nakagami_inverse_efficiency(ratio(decibels), shape), expected, rtol=0, atol=5e-9)


@pytest.mark.parametrize("shape", [1.01, 1.2, 1.5, 2.5, 20, 400])
@pytest.mark.parametrize("decibels", [-60, -10, 15, 60])
def test_nakagami_against_mpmath(shape, decibels):
    with mpmath.workdps(25):
        rho, m = mpmath.mpf(10) ** (mpmath.mpf(decibels) / 10), mpmath.mpf(shape)

        def integrand(u):
            gain = mpmath.exp(u)
            return mpmath.log(2) / mpmath.log1p(rho * gain) * mpmath.exp(m * (u - gain + 1))

        wide = min(8 / mpmath.sqrt(m), 4)
        ends = [-60 / (m - 1), *(-wide * k for k in (8, 4, 2, 1)), 0, wide / 2, wide]
        law = m * mpmath.log(m) - mpmath.loggamma(m) - m
        exact = float(mpmath.exp(law) * mpmath.quad(integrand, sorted(ends)))
    assert fading.nakagami_inverse_efficiency(ratio(decibels), shape) == pytest.approx(exact, rel=1e-10)


def test_nakagami_against_draws():
    gains = stats.gamma(3, scale=1 / 3).rvs(400_000, random_state=1)
    drawn = 1 / np.log2(1 + 10 * gains)
    error = drawn.std() / len(drawn) ** 0.5
    assert fading.nakagami_inverse_efficiency(10.0, 3.0) == pytest.approx(drawn.mean(), abs=4 * error)


@given(DECIBELS, st.floats(1.05, 100))
def test_laws_order_as_they_should(decibels, shape):
    rho = ratio(decibels)
    fadeless = 1 / fading.awgn_efficiency(rho)
    ergodic = 1 / fading.ergodic_efficiency(rho)
    nakagami = fading.nakagami_inverse_efficiency(rho, shape)
    assert fadeless <= ergodic * (1 + 1e-12)
    assert fadeless <= nakagami * (1 + 1e-12)
    assert fading.nakagami_inverse_efficiency(rho, shape * 1.1) <= nakagami * (1 + 1e-12)


@pytest.mark.parametrize("law", ["ergodic", "truncated", "nakagami", "awgn"])
def test_a_dead_link_takes_for_ever_and_nothing_is_nan(law):
    times = fading.mean_inverse_efficiency([0.0, 1e-300, 1e-6, 1.0, 1e6, 1e300], Cellular(fading=law))
    assert times[0] == np.inf
    assert not np.isnan(times).any()
    assert (np.diff(times[2:]) < 0).all()


@pytest.mark.parametrize("law", ["rayleigh", "literal"])
def test_the_literal_law_is_refused_with_the_reason(law):
    with pytest.raises(FedcastError, match="infinite under Rayleigh"):
        fading.mean_inverse_efficiency(1.0, Cellular.model_construct(fading=law))


@pytest.mark.parametrize("shape", [0.5, 1.0])
def test_nakagami_needs_a_shape_above_one(shape):
    with pytest.raises(FedcastError, match="infinite under Rayleigh") as error:
        fading.nakagami_inverse_efficiency(1.0, shape)
    assert str(error.value).startswith(f"invalid value {shape} for cellular.nakagami_shape: expected a number > 1")


@pytest.mark.parametrize("wrong", [-1.0, np.nan, [1.0, -3.0]])
def test_an_snr_in_decibels_is_refused(wrong):
    with pytest.raises(FedcastError, match="not dB"):
        fading.ergodic_efficiency(wrong)


@pytest.mark.parametrize("outage", [0.0, 1.0])
def test_an_outage_is_a_share(outage):
    with pytest.raises(FedcastError, match="between 0 and 1"):
        fading.truncated_inverse_efficiency(1.0, outage)
