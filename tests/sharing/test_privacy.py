"""Accounting against the definition by quadrature, against `dp-accounting`, and at its limits."""

import json
import math
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, norm

from fedcast.errors import FedcastError
from fedcast.federation import DeviceLedger
from fedcast.federation.device.envelope import RejectedError
from fedcast.sharing import (
    SIGMA_STEPS,
    Release,
    check_budget,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    pure_mu,
    secure_noise,
    seeded_noise,
    total_epsilon,
    total_mu,
)

DP_ACCOUNTING = json.loads(Path(__file__).with_name("dp_accounting.json").read_text(encoding="utf-8"))


def delta_by_quadrature(mu, epsilon):
    """δ(ε) = ∫ max(0, p − e^ε q) with p = N(μ, 1) and q = N(0, 1), the definition of (ε, δ)-DP."""
    first = epsilon / mu + mu / 2  # where p = e^ε q
    return quad(lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), first, first + 40, epsabs=0, limit=200)[0]


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_is_that_of_the_definition(mu, epsilon):
    expected = delta_by_quadrature(mu, epsilon)
    if expected > 1e-280:
        assert gaussian_delta(mu, epsilon) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("row", DP_ACCOUNTING["rows"], ids=str)
def test_epsilon_is_that_of_dp_accounting(row):
    releases = [Release("", mu=mu) for mu in row["mu"]] + [Release("", epsilon=epsilon) for epsilon in row["epsilon"]]
    found, expected = total_epsilon(releases, DP_ACCOUNTING["delta"]), row["total"]
    if not row["epsilon"]:
        assert found == pytest.approx(expected, rel=1e-4)
    else:  # a bound: not below the exact composition, and not far above
        assert expected - 1e-4 <= found <= 1.25 * expected


@given(st.floats(0.01, 20), st.floats(-12, -1))
def test_epsilon_and_mu_are_inverse_and_on_the_safe_side(epsilon, digits):
    delta = 10**digits
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * (1 + 1e-9), epsilon) > delta * (1 - 1e-6)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


def test_a_pure_guarantee_as_a_gaussian_one():
    """Type II error of the best test, at every type I error: that of ε-DP is nowhere below that of μ-GDP."""
    alpha = np.linspace(1e-6, 1 - 1e-6, 2001)
    for epsilon in (0.1, 0.5, 2.0):
        pure = np.maximum(np.maximum(0, 1 - math.exp(epsilon) * alpha), math.exp(-epsilon) * (1 - alpha))
        gaussian = norm.cdf(norm.ppf(1 - alpha) - pure_mu(epsilon))
        assert (gaussian <= pure + 1e-12).all()
        assert (norm.cdf(norm.ppf(1 - alpha) - 0.99 * pure_mu(epsilon)) > pure).any(), "a smaller μ would not do"


def test_composition_adds_squares():
    assert total_mu([]) == 0
    assert total_epsilon([], 1e-5) == 0
    assert total_mu([Release("", mu=0.3), Release("", mu=0.4)]) == pytest.approx(0.5)
    assert total_epsilon([Release("", mu=0.3), Release("", mu=0.4)], 1e-5) == gaussian_epsilon(0.5, 1e-5)


def test_a_budget_is_kept():
    mu = gaussian_mu(2.0, 1e-5)
    assert check_budget([], Release("means", mu=mu), 2.0, 1e-5) == pytest.approx(2.0)
    assert check_budget([Release("a", mu=mu)] * 9, Release("means", mu=mu), None, 1e-5) > 6
    with pytest.raises(FedcastError, match=r"ε = 2 of 2, and means would make it 2\.9.* \(δ = 1e-05\)"):
        check_budget([Release("a", mu=mu)], Release("means", mu=mu), 2.0, 1e-5)


@pytest.mark.parametrize("call", [lambda: gaussian_mu(1.0, 0.0), lambda: gaussian_mu(-1.0, 1e-5),
                                  lambda: gaussian_mu(math.nan, 1e-5), lambda: gaussian_epsilon(math.inf, 1e-5),
                                  lambda: gaussian_epsilon(1.0, 1.0), lambda: pure_mu(1e4)])  # fmt: skip
def test_numbers_without_a_meaning(call):
    with pytest.raises(FedcastError, match="invalid value"):
        call()


def test_epsilon_of_zero_and_of_large_mu():
    assert gaussian_mu(0.0, 1e-5) == pytest.approx(2 * norm.ppf((1 + 1e-5) / 2), rel=1e-6)
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert math.isfinite(gaussian_epsilon(100.0, 1e-12))


@pytest.mark.parametrize("draw", [secure_noise, seeded_noise(np.random.default_rng(3))], ids=["secure", "seeded"])
def test_noise_is_normal_in_whole_steps(draw):
    drawn = draw(np.full(4000, 7)) - 7
    assert drawn.dtype == np.int64
    # Floors are half a step below on average, 1/2^21 of σ.
    assert kstest(drawn / SIGMA_STEPS, "norm").pvalue > 1e-4
    assert abs((drawn < 0).mean() - 0.5) < 0.04
    assert len(np.unique(drawn % 16)) == 16


def test_a_device_counts_gaussian_releases_and_answers_together(tmp_path):
    ledger = DeviceLedger(tmp_path / "ledger.sqlite")
    counts, means = Release("counts", epsilon=0.5), Release("means", mu=gaussian_mu(2.0, 1e-5))
    assert ledger.spend(counts, 2.6, 1e-5, [1, 2]) == [1, 2]
    assert ledger.epsilon_spent() == pytest.approx(0.5)
    assert ledger.spend(means, 2.6, 1e-5, "sent") == "sent"
    assert ledger.spend(means, 2.6, 1e-5, "sent again") == "sent", "the same release is not counted twice"
    assert ledger.epsilon_spent() == total_epsilon([counts, means], 1e-5) == pytest.approx(2.5)
    with pytest.raises(RejectedError, match="budget"):
        ledger.spend(Release("other means", mu=means.mu), 2.6, 1e-5, "")
    assert len(ledger.releases()) == 2
    ledger.close()
    assert DeviceLedger(tmp_path / "ledger.sqlite").releases() == [counts, means], "it survives a restart"


def test_a_ledger_of_an_earlier_version_is_continued(tmp_path):
    old = sqlite3.connect(tmp_path / "ledger.sqlite")
    old.execute("CREATE TABLE spent (what TEXT PRIMARY KEY, at REAL, epsilon REAL, answer TEXT)")
    old.execute("INSERT INTO spent VALUES ('counts', 1.0, 0.5, '[3]')")
    old.commit()
    old.close()
    ledger = DeviceLedger(tmp_path / "ledger.sqlite")
    assert ledger.releases() == [Release("counts", epsilon=0.5)]
    assert ledger.spend(Release("counts", epsilon=0.5), 0.5, 1e-5, [4]) == [3]
