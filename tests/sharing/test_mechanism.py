"""Attack the mechanisms: from 100,000 draws on neighbouring data no test proves more than the claim.

A test accepts "the second data set" if a projection of the release is above a threshold. If it does so with probability
β on the second and α on the first data set, then ε ≥ ln((β − δ)/α) and μ ≥ Φ⁻¹(β) − Φ⁻¹(α). Both are bounded from below
by Clopper–Pearson intervals at 99.9 %, divided among all thresholds and projections that are tried. Thresholds are from
draws of their own.
"""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import beta, norm

from fedcast.sharing import features, gaussian_mu, prototypes, seeded_noise, synthetic
from fedcast.sharing.features import gaussian_release
from fedcast.sharing.prototypes import noisy_sums
from fedcast.sharing.synthetic import triangles

DRAWS, PILOT, DELTA, ERROR, THRESHOLDS = 100_000, 5_000, 1e-5, 1e-3, 15
CLIP = 0.33


def without_noise(exact):
    return exact


def means_release(data, copies, mu, noise):
    """Releases of `prototypes` for so many copies of a data set (inputs, labels of 2 classes), [copies, 2·(d + 1)]."""
    inputs, labels = data
    cells = np.concatenate([labels + 2 * copy for copy in range(copies)])
    sums, counts = noisy_sums(np.tile(inputs, (copies, 1)), cells, 2 * copies, CLIP, mu, noise)
    return np.concatenate([sums, counts[:, None]], axis=1).reshape(copies, -1)


def covariance_release(residuals, copies, mu, noise):
    """Releases of Σ r rᵀ of `synthetic` for so many copies of some residuals, [copies, k(k + 1)/2]."""
    vectors, most = triangles(residuals, 1.0), 1.0
    blocks = [(np.tile(vectors, (copies, 1)), np.repeat(np.arange(copies), len(vectors)))]
    return gaussian_release(blocks, (copies, vectors.shape[1]), synthetic._SENSITIVITY * most, mu, noise)


def bounds_of(release, first, second, epsilon):
    """Return the largest proven (ε, μ): lower bounds at 99.9 % over projections, thresholds and both directions."""
    mu = gaussian_mu(epsilon, DELTA)
    exact = [release(data, 1, 10.0, without_noise)[0] for data in (first, second)]
    difference = exact[1] - exact[0]
    noise = seeded_noise(np.random.default_rng(5))
    pilot = release(first, PILOT, mu, noise)
    # The likelihood ratio of independent normal numbers, and every coordinate alone: a number that leaks is seen there.
    ratio = difference / np.maximum(pilot.var(axis=0), 1e-9)
    projections = [ratio, *np.eye(len(difference))[difference != 0]]
    drawn = [release(data, DRAWS, mu, noise) for data in (first, second)]
    alpha_error = ERROR / (2 * len(projections) * THRESHOLDS * 2)
    best = np.zeros(2)
    for way in projections:
        thresholds = np.quantile(pilot @ way, np.linspace(0.002, 0.998, THRESHOLDS))
        above = [DRAWS - np.searchsorted(np.sort(each @ way), thresholds, side="right") for each in drawn]
        for hits, false in ((above[1], above[0]), (DRAWS - above[0], DRAWS - above[1])):
            best = np.maximum(best, proven(hits, false, alpha_error))
    return tuple(best)


def proven(hits, false, error):
    low = beta.ppf(error, hits, DRAWS - hits + 1)
    high = beta.ppf(1 - error, false + 1, DRAWS - false)
    low, high = np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilons = np.where(low > DELTA, np.log(np.maximum(low - DELTA, 1e-300) / high), 0.0)
        mus = norm.ppf(low) - norm.ppf(high)
    return max(0.0, float(epsilons.max())), max(0.0, float(np.nanmax(mus)))


WHITE = np.full(4, 0.66)  # of norm 2·0.66 before it is clipped to 2·0.33
OTHERS = np.array([[0.1, 0.2, 0.0, 0.3], [0.0, 0.1, 0.4, 0.0]])


def images(last, label):
    return np.vstack([OTHERS, last]), np.array([0, 1, label])


NEIGHBOURS = {
    "label": (means_release, images(WHITE, 0), images(WHITE, 1)),
    "input": (means_release, images([0.66, 0, 0, 0], 0), images([0, 0.66, 0, 0], 0)),
    "input and label": (means_release, images([0.9, 0.9, 0, 0], 0), images([0, 0, 0.9, 0.9], 1)),
    "residual": (covariance_release, np.array([[0.3, 0.1], [3.0, 0.0]]), np.array([[0.3, 0.1], [0.0, 3.0]])),
}


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_no_test_proves_more_than_the_claim(name, epsilon):
    found_epsilon, found_mu = bounds_of(*NEIGHBOURS[name], epsilon)
    claimed = gaussian_mu(epsilon, DELTA)
    assert found_epsilon <= epsilon
    assert found_mu <= claimed
    if name != "input":  # the others are as far apart as data can be: the claim is not much more than the truth
        assert found_mu > 0.85 * claimed


def halved_noise(release, data, copies, mu, noise):
    return release(data, copies, mu, lambda exact: (noise(exact) + exact) // 2)


def leaked_counts(release, data, copies, mu, noise):
    released = release(data, copies, mu, noise)
    released[:, [4, 9]] = np.bincount(data[1], minlength=2)
    return released


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("fault", "name"), [
    (halved_noise, "label"), (halved_noise, "residual"), (leaked_counts, "label"), (leaked_counts, "input and label"),
])  # fmt: skip
def test_planted_faults_are_found(fault, name, epsilon):
    release, first, second = NEIGHBOURS[name]
    found_epsilon, found_mu = bounds_of(partial(fault, release), first, second, epsilon)
    assert found_mu > gaussian_mu(epsilon, DELTA)
    assert found_epsilon > epsilon or fault is halved_noise


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("module", "name"), [(prototypes, "label"), (synthetic, "residual")])
def test_a_wrong_sensitivity_is_found(module, name, epsilon, monkeypatch):
    """That of adding a sample instead of replacing one: smaller by √2."""
    monkeypatch.setattr(module, "_SENSITIVITY", module._SENSITIVITY / math.sqrt(2))
    assert bounds_of(*NEIGHBOURS[name], epsilon)[1] > gaussian_mu(epsilon, DELTA)


def test_an_input_that_is_not_clipped_is_found(monkeypatch):
    monkeypatch.setattr(prototypes, "limited", lambda vectors, norm: vectors.astype(float))
    assert bounds_of(*NEIGHBOURS["label"], 2.0)[1] > gaussian_mu(2.0, DELTA)


def test_sums_are_whole_numbers_of_steps():
    """Released values are on a grid that depends on public numbers alone."""
    vectors, cells = np.random.default_rng(0).random((50, 3)), np.arange(50) % 2
    noisy = gaussian_release([(vectors, cells)], (2, 3), 1.0, 0.5, seeded_noise(np.random.default_rng(1)))
    step = 1.0 / (features.SIGMA_STEPS * 0.5 - 2 * math.sqrt(3))
    assert np.abs(noisy / step - np.rint(noisy / step)).max() < 1e-6
    exact = gaussian_release([(vectors, cells)], (2, 3), 1.0, 0.5, without_noise)
    assert exact == pytest.approx(np.array([vectors[cells == cell].sum(axis=0) for cell in range(2)]), abs=50 * step)
    assert (exact <= np.array([vectors[cells == cell].sum(axis=0) for cell in range(2)])).all(), "rounded towards 0"
