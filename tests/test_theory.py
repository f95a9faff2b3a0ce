"""The bound against FedAvg itself: exact expectations by enumeration, many seeds, brute force.

The losses are made so that the assumptions hold with known constants. Class y pulls a model w (one number) to its
centre with the force clip(L (w − c_y), ±G): convex, L-smooth, gradients at most G, and far from both centres every
gradient is ±G, where ‖∇F_k − ∇F‖ = D_k G exactly. A user draws one class per step, so that E SGD steps of K users have
Y^(E K) courses, few enough to sum over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from fedcast import heterogeneity
from fedcast.errors import FedcastError
from fedcast.theory import (
    Form,
    Problem,
    RoundsCurve,
    best_step_size,
    convergence_bound,
    divergences_of,
    local_steps,
    mean_drift_bound,
    one_round_bound,
    pair_drift_bound,
    problem,
    rounds_curve,
    rounds_needed,
    slips,
    step_size_limit,
    user_drift_bound,
)

FORMS: tuple[Form, ...] = get_args(Form)
TRUE_FORMS: tuple[Form, ...] = ("corrected", "sharp")
SLACK = 1e-9


# --- a federated problem with known constants, and FedAvg on it ------------------------------------------------------


@dataclass(frozen=True)
class Pull:
    """Users whose classes pull one number to their centres."""

    smoothness: float
    slope: float
    centres: np.ndarray
    distributions: np.ndarray
    weights: np.ndarray

    def class_gradients(self, w: np.ndarray) -> np.ndarray:
        return np.clip(self.smoothness * (np.asarray(w)[..., None] - self.centres), -self.slope, self.slope)

    def loss(self, w: np.ndarray) -> np.ndarray:
        """F(w): Huber's loss of each class, mixed."""
        away, edge = np.abs(np.asarray(w)[..., None] - self.centres), self.slope / self.smoothness
        near, far = self.smoothness * away**2 / 2, self.slope * (away - edge / 2)
        return np.where(away <= edge, near, far) @ (self.weights @ self.distributions)

    def optimum(self) -> float:
        low, high = self.centres.min(), self.centres.max()
        if low == high:
            return float(low)
        return float(minimize_scalar(self.loss, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x)

    def variance(self) -> float:
        """Of a single draw, at the worst w, for two classes: p (1 − p) times the squared gap of the class gradients."""
        gap = min(2 * self.slope, self.smoothness * abs(self.centres[0] - self.centres[1]))
        return float(self.distributions.prod(axis=1).max() * gap**2)

    def setting(self, start: float, step_size: float, steps: int, noisy: bool = True) -> Problem:
        return problem(
            smoothness=self.smoothness,
            gradient_bound=self.slope,
            gradient_variance=self.variance() if noisy else 0.0,
            step_size=step_size,
            local_steps=steps,
            initial_distance=abs(start - self.optimum()),
            divergences=divergences_of(self.distributions, self.weights),
            weights=self.weights,
        )


@dataclass(frozen=True)
class Course:
    """Exact expectations of one round: excess[E], drift[E + 1, K], pair[E + 1, K, K], distances² at both ends."""

    excess: np.ndarray
    drift: np.ndarray
    pair: np.ndarray
    start2: float
    end2: float


def fedavg(pull: Pull, start: float, eta: float, steps: int, rounds: int, noisy: bool, sign: float = -1.0):
    """FedAvg with every course of the draws and its probability; `noisy` False: full gradients."""
    users, best = len(pull.weights), pull.optimum()
    draws = np.array(list(product(range(len(pull.centres)), repeat=users)))
    chance = np.prod(pull.distributions[np.arange(users), draws], axis=1)
    models, odds, courses = np.full((1, users), start), np.ones(1), []
    for _ in range(rounds):
        excess, drift, pair = [], [], []
        ends = [float(odds @ (models @ pull.weights - best) ** 2)]
        for step in range(steps + 1):
            mean = models @ pull.weights
            drift.append(odds @ (models - mean[:, None]) ** 2)
            pair.append(np.einsum("s,skj->kj", odds, (models[:, :, None] - models[:, None, :]) ** 2))
            if step > 0:
                excess.append(odds @ pull.loss(mean) - pull.loss(np.array(best)))
            if step == steps:
                break
            slopes = pull.class_gradients(models)
            if noisy:
                drawn = slopes[:, np.arange(users), draws]
                models = (models[:, None, :] + sign * eta * drawn).reshape(-1, users)
                odds = np.outer(odds, chance).ravel()
            else:
                models = models + sign * eta * (slopes * pull.distributions).sum(axis=-1)
        mean = models @ pull.weights
        ends.append(float(odds @ (mean - best) ** 2))
        courses.append(Course(np.array(excess), np.array(drift), np.array(pair), ends[0], ends[1]))
        models = np.repeat(mean[:, None], users, axis=1)
    return courses


@st.composite
def pulls(draw: st.DrawFn) -> tuple[Pull, float, bool, int, int]:
    """A random problem, where to start, whether draws are noisy, and (E, T) small enough to enumerate."""
    noisy = draw(st.booleans())
    users, steps, rounds = draw(st.sampled_from([(2, 1, 2), (2, 2, 2), (2, 4, 1), (3, 2, 1), (3, 3, 1)]))
    if not noisy:
        users, steps = users + draw(st.integers(0, 4)), steps + draw(st.integers(0, 12))
    share = st.floats(0, 1)
    first = np.array(draw(st.lists(share, min_size=users, max_size=users)))
    raw = np.array(draw(st.lists(st.floats(0.05, 1), min_size=users, max_size=users)))
    weights = np.full(users, 1 / users) if draw(st.booleans()) else raw / raw.sum()
    width = draw(st.floats(0.0, 10.0))
    pull = Pull(
        draw(st.floats(0.1, 10)),
        draw(st.floats(0.1, 20)),
        np.array([-width, width]),
        np.stack([first, 1 - first], axis=1),
        weights,
    )
    return pull, draw(st.floats(-15, 15)), noisy, steps, rounds


def _equal(pull: Pull) -> bool:
    return bool(np.ptp(pull.weights) < 1e-12)


def _forms(pull: Pull, forms: tuple[Form, ...]) -> list[Form]:
    return [form for form in forms if form != "printed" or _equal(pull)]


# --- the assumption on gradients -------------------------------------------------------------------------------------


@given(pulls())
@settings(max_examples=60, deadline=None)
def test_gradients_of_users_differ_by_no_more_than_d_times_g(case) -> None:
    pull, *_ = case
    w = np.linspace(-20, 20, 201)
    per_user = pull.class_gradients(w) @ pull.distributions.T
    gap = np.abs(per_user - (per_user @ pull.weights)[:, None])
    limit = divergences_of(pull.distributions, pull.weights) * pull.slope
    assert (gap <= limit + SLACK).all()
    if 2 * pull.slope <= pull.smoothness * np.ptp(pull.centres):  # there is a w where the classes pull at ±G
        np.testing.assert_allclose(gap[100], limit, atol=1e-9)


def test_after_sharing_the_mixture_counts_and_not_the_one_before() -> None:
    before = heterogeneity.skew_of([[8, 0], [0, 8], [4, 4]])
    after = heterogeneity.share(before, [-1, 0, -1], [8, 0, 0])
    weights = after.sizes / after.sizes.sum()
    exact = divergences_of(after.distributions, weights)
    pull = Pull(1.0, 1.0, np.array([-5.0, 5.0]), after.distributions, weights)
    per_user = pull.class_gradients(np.zeros(1)) @ after.distributions.T
    gap = np.abs(per_user - per_user @ weights).ravel()
    np.testing.assert_allclose(gap, exact * pull.slope, atol=1e-12)
    assert after.emd[2] == 0
    assert gap[2] == pytest.approx(0.25)  # D_EMD times G says 0
    assert (np.abs(exact - after.emd) <= heterogeneity.mixture_shift(after) + 1e-12).all()


# --- the lemmas and the theorem hold ---------------------------------------------------------------------------------


@given(pulls(), st.floats(0.01, 1))
@settings(max_examples=150, deadline=None)
def test_one_round_bound_holds(case, part: float) -> None:
    pull, start, noisy, steps, rounds = case
    for form in _forms(pull, FORMS):
        eta = part * step_size_limit(pull.smoothness, form)
        setting = pull.setting(start, eta, steps, noisy)
        for course in fedavg(pull, start, eta, steps, rounds, noisy):
            bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5, form)
            assert course.excess.mean() <= bound + SLACK * (1 + abs(bound) + course.start2 / eta)


@given(pulls(), st.floats(0.01, 1))
@settings(max_examples=150, deadline=None)
def test_drift_bounds_hold(case, part: float) -> None:
    pull, start, noisy, steps, rounds = case
    for form in _forms(pull, FORMS):
        eta = part * step_size_limit(pull.smoothness, form)
        setting = pull.setting(start, eta, steps, noisy)
        for course in fedavg(pull, start, eta, steps, rounds, noisy):
            for step in range(steps + 1):
                mean = course.drift[step] @ pull.weights
                assert mean <= mean_drift_bound(setting, step, form) * (1 + SLACK) + SLACK
                for user, other in product(range(len(pull.weights)), repeat=2):
                    bound = pair_drift_bound(setting, user, other, step, form)
                    assert course.pair[step, user, other] <= bound * (1 + SLACK) + SLACK
                if form != "printed":  # the printed bound for single users is false, see below
                    assert (course.drift[step] <= user_drift_bound(setting, step, form) * (1 + SLACK) + SLACK).all()


@given(pulls(), st.floats(0.01, 1))
@settings(max_examples=150, deadline=None)
def test_convergence_bound_holds(case, part: float) -> None:
    pull, start, noisy, steps, rounds = case
    for form in TRUE_FORMS:
        eta = part * step_size_limit(pull.smoothness, form)
        setting = pull.setting(start, eta, steps, noisy)
        excess = np.mean([course.excess for course in fedavg(pull, start, eta, steps, rounds, noisy)])
        total = convergence_bound(setting, rounds, form).total
        assert excess <= total * (1 + SLACK) + SLACK
        if form == "corrected" and _equal(pull):  # the printed theorem is true but for A in place of A²
            printed = convergence_bound(setting, rounds, "printed")
            assert excess <= printed.floor + convergence_bound(setting, rounds).start + SLACK * (1 + total)


def test_bounds_hold_for_logistic_regression_over_many_seeds() -> None:
    rng = np.random.default_rng(7)
    users, classes, per_class, dims, seeds, steps, rounds = 10, 2, 30, 3, 200, 5, 20
    centres = np.array([[0.7, 0.3, 0.0], [-0.5, 0.2, 0.3]])
    features = centres[:, None] + rng.normal(0, 0.6, (classes, per_class, dims))
    label = np.array([1.0, -1.0])[:, None]
    first = np.linspace(0, 1, users)
    distributions = np.stack([first, 1 - first], axis=1)
    longest = np.linalg.norm(features, axis=2).max()

    def loss(w: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, -label * (features @ w.T).transpose(*range(2, w.ndim + 1), 0, 1)).mean(axis=(-2, -1))

    best = minimize(loss, np.zeros(dims), tol=1e-12)
    start = best.x + np.array([2.0, -1.0, 0.5])
    smoothness, slope = longest**2 / 4, longest
    models, excess = np.tile(start, (seeds, users, 1)), []
    eta = 0.25 / smoothness
    for _ in range(rounds):
        drift = []
        for _ in range(steps):
            kind = (rng.random((seeds, users)) >= first).astype(int)
            x = features[kind, rng.integers(per_class, size=(seeds, users))]
            y = label[kind, 0]
            margin = y * (x * models).sum(axis=-1)
            models = models + eta * (y / (1 + np.exp(margin)))[..., None] * x
            mean = models.mean(axis=1)
            drift.append(((models - mean[:, None]) ** 2).sum(axis=-1).mean())
            excess.append(loss(mean).mean() - best.fun)
        models = np.repeat(mean[:, None], users, axis=1)
    setting = problem(
        smoothness=smoothness,
        gradient_bound=slope,
        gradient_variance=slope**2,
        step_size=eta,
        local_steps=steps,
        initial_distance=float(np.linalg.norm(start - best.x)),
        divergences=divergences_of(distributions),
    )
    bounds = {form: convergence_bound(setting, rounds, form).total for form in FORMS}
    for form in TRUE_FORMS:
        assert np.mean(excess) <= bounds[form]
        assert all(seen <= mean_drift_bound(setting, i + 1, form) for i, seen in enumerate(drift))
    # how far from practice the constants are; the documentation quotes these figures
    assert np.mean(excess) == pytest.approx(0.024, rel=0.05)
    assert bounds == pytest.approx({"printed": 49.2, "corrected": 13.4, "sharp": 1.23}, rel=0.01)
    assert mean_drift_bound(setting, form="sharp") / drift[-1] == pytest.approx(580, rel=0.05)


# --- and cannot be much better ---------------------------------------------------------------------------------------


def test_sharp_drift_is_attained_where_gradients_are_constant() -> None:
    pull = Pull(1.0, 2.0, np.array([-50.0, 50.0]), np.array([[1.0, 0], [0.25, 0.75], [0.5, 0.5]]), np.full(3, 1 / 3))
    setting = pull.setting(0.0, 0.2, 8, noisy=False)
    (course,) = fedavg(pull, 0.0, 0.2, 8, 1, noisy=False)
    for step in range(9):
        bound = mean_drift_bound(setting, step, "sharp")
        assert course.drift[step] @ pull.weights == pytest.approx(bound, rel=1e-9)
    assert course.pair[8, 0, 1] == pytest.approx(pair_drift_bound(setting, 0, 1, 8, "sharp"), rel=1e-9)


def test_sharp_noise_drift_is_attained_without_skew() -> None:
    pull = Pull(1.0, 2.0, np.array([-50.0, 50.0]), np.full((2, 2), 0.5), np.array([0.25, 0.75]))
    setting = pull.setting(0.0, 0.2, 4)
    (course,) = fedavg(pull, 0.0, 0.2, 4, 1, noisy=True)
    assert course.drift[4] @ pull.weights == pytest.approx(mean_drift_bound(setting, 4, "sharp"), rel=1e-9)
    assert course.pair[4, 0, 1] == pytest.approx(pair_drift_bound(setting, 0, 1, 4, "sharp"), rel=1e-9)


def test_one_round_bound_is_attained_by_a_linear_loss() -> None:
    """On a slope without end (no curvature, no noise) Lemma 1 is Δ‖w − w*‖²/(2ηE) up to the step's own square."""
    pull = Pull(0.001, 1.0, np.array([0.0, 0.0]), np.array([[0.5, 0.5]]), np.ones(1))
    setting = pull.setting(1e6, 0.01, 5, noisy=False)
    (course,) = fedavg(pull, 1e6, 0.01, 5, 1, noisy=False)
    closer = (course.start2 - course.end2) / (2 * 0.01 * 5)
    bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5)
    assert bound == pytest.approx(closer, rel=1e-9)
    assert course.excess.mean() == pytest.approx(bound, rel=2e-3)


@pytest.mark.parametrize("part", [0.1, 0.5, 1.0])
def test_sharp_one_round_bound_is_attained_by_noise_at_the_optimum(part: float) -> None:
    pull = Pull(2.0, 100.0, np.array([-1.0, 1.0]), np.full((1, 2), 0.5), np.ones(1))  # a parabola, one user
    eta = part * step_size_limit(2.0, "sharp")
    setting = pull.setting(0.0, eta, 1)
    (course,) = fedavg(pull, 0.0, eta, 1, 1, noisy=True)
    bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5, "sharp")
    assert course.excess.mean() == pytest.approx(bound, rel=1e-6)


def test_printed_one_round_bound_counts_the_last_step_and_not_the_first() -> None:
    setting = _plain(gradient_variance=0.0)
    first, last = np.zeros((6, 3)), np.zeros((6, 3))
    first[0] = last[-1] = 1.0
    weighted = {form: [one_round_bound(setting, rows, 1.0, 1.0, form) for rows in (first, last)] for form in FORMS}
    assert weighted["printed"] == pytest.approx([0, 2.0 / 5])
    assert weighted["corrected"] == pytest.approx([2.0 / 5, 0])
    assert weighted["sharp"] == pytest.approx([1.0 / 5, 0])


@given(pulls(), st.floats(0.01, 1), st.integers(1, 100))
@settings(max_examples=100, deadline=None)
def test_sharp_is_never_above_corrected(case, part: float, rounds: int) -> None:
    pull, start, noisy, steps, _ = case
    setting = pull.setting(start, part * step_size_limit(pull.smoothness), steps, noisy)
    corrected, sharp = (convergence_bound(setting, rounds, form) for form in TRUE_FORMS)
    assert sharp.total <= corrected.total * (1 + SLACK)
    assert mean_drift_bound(setting, form="sharp") <= mean_drift_bound(setting) * (1 + SLACK)
    assert (user_drift_bound(setting, form="sharp") <= user_drift_bound(setting) * (1 + SLACK) + 1e-12).all()
    assert pair_drift_bound(setting, 0, 1, form="sharp") <= pair_drift_bound(setting, 0, 1) * (1 + SLACK)


# --- where the printed ones fail -------------------------------------------------------------------------------------


def test_printed_drift_of_a_user_without_skew_is_violated() -> None:
    """D₂ := 0 for the mean model: a user with D_k = 0 would never leave the mean. It does, after two steps."""
    pull = Pull(1.0, 4.0, np.array([-3.0, 8.0]), np.array([[1.0, 0], [0, 1], [0.5, 0.5]]), np.full(3, 1 / 3))
    setting = pull.setting(0.0, 0.25, 6, noisy=False)
    (course,) = fedavg(pull, 0.0, 0.25, 6, 1, noisy=False)
    assert setting.divergences[2] == 0
    assert user_drift_bound(setting, form="printed")[2] == 0
    assert course.drift[1, 2] == pytest.approx(0, abs=1e-12)
    assert course.drift[2, 2] == pytest.approx((0.25 / 3 * 0.875) ** 2)  # ηL/3 (w̄ − w₁) with w̄ = 1/8, w₁ = −3/4
    assert course.drift[6, 2] == pytest.approx(0.529, abs=0.001)
    for form in TRUE_FORMS:
        assert course.drift[6, 2] <= user_drift_bound(setting, form=form)[2]


def test_printed_theorem_is_violated_far_from_the_optimum() -> None:
    """A in place of A²: plain descent on a slope, no skew and no noise, 100 away from its foot."""
    pull = Pull(1.0, 1.0, np.array([0.0, 0.0]), np.full((2, 2), 0.5), np.full(2, 0.5))
    setting = pull.setting(100.0, 0.25, 5, noisy=False)
    excess = np.mean([course.excess for course in fedavg(pull, 100.0, 0.25, 5, 10, noisy=False)])
    assert excess == pytest.approx(93.1, abs=0.1)
    assert convergence_bound(setting, 10, "printed").total == pytest.approx(4.0)
    assert convergence_bound(setting, 10).total == pytest.approx(400.0)


def test_printed_sign_climbs_and_breaks_every_bound() -> None:
    """The printed local update adds the gradient; the loss then grows past all bounds."""
    pull = Pull(1.0, 1.0, np.array([-1.0, 1.0]), np.array([[1.0, 0], [0, 1]]), np.full(2, 0.5))
    setting = pull.setting(3.0, 0.05, 5, noisy=False)
    up, down = (
        np.mean([course.excess for course in fedavg(pull, 3.0, 0.05, 5, 40, noisy=False, sign=sign)])
        for sign in (1.0, -1.0)
    )
    bounds = [convergence_bound(setting, 40, form).total for form in FORMS]
    assert up > max(bounds)
    assert down <= min(bounds[1:])


@pytest.mark.parametrize("form", FORMS)
def test_units(form: Form) -> None:
    """Loss in other units, then weights in other units: the same run, so a true bound follows. The printed does not."""
    pull = Pull(1.0, 3.0, np.array([-2.0, 2.0]), np.array([[0.9, 0.1], [0.2, 0.8]]), np.full(2, 0.5))
    setting = pull.setting(5.0, 0.2, 3)
    total = convergence_bound(setting, 10, form).total
    loss10 = replace(
        setting,
        smoothness=10 * setting.smoothness,
        gradient_bound=10 * setting.gradient_bound,
        gradient_variance=100 * setting.gradient_variance,
        step_size=setting.step_size / 10,
    )
    weights10 = replace(
        setting,
        smoothness=setting.smoothness / 100,
        gradient_bound=setting.gradient_bound / 10,
        gradient_variance=setting.gradient_variance / 100,
        step_size=setting.step_size * 100,
        initial_distance=setting.initial_distance * 10,
    )
    consistent = np.allclose(
        [convergence_bound(loss10, 10, form).total, convergence_bound(weights10, 10, form).total], [10 * total, total]
    )
    assert consistent == (form != "printed")


def test_slips_against_brute_force() -> None:
    pull = Pull(1.0, 5.0, np.array([-20.0, 20.0]), np.array([[1.0, 0], [0, 1], [0.5, 0.5]]), np.full(3, 1 / 3))
    setting = replace(pull.setting(0.0, 0.1, 2, noisy=False), initial_distance=4.0)
    start, eq_b, eq_c, alone, spread = slips(setting, rounds=10)
    r = np.linspace(0, 50, 500_001)
    needed = np.max(2 * setting.gradient_bound * r - r**2 / (2 * 0.1 * 2))  # D₁ + D₂ = 2
    assert eq_b.corrected == pytest.approx(needed, rel=1e-9)
    assert eq_b.printed == pytest.approx(2 * 0.1 * 2 * (1 + 1) * 5.0)  # as the paper has it
    assert eq_b.printed < needed
    at_zero = (pull.class_gradients(np.zeros(1)) @ pull.distributions.T).ravel()
    assert eq_c.printed < (at_zero[0] - at_zero[1]) ** 2 <= eq_c.corrected
    assert (start.printed, start.corrected) == pytest.approx((4 / 4 / 1.0, 16 / 4 / 1.0))
    assert alone.printed == 0 < alone.corrected
    assert spread.corrected == pytest.approx(np.mean([1, 1, 0]))
    assert spread.printed == pytest.approx(3 * np.mean([1, 1, 0]) ** 2)


def test_slips_of_a_single_user() -> None:
    setting = _plain(divergences=[0.0])
    assert [slip.corrected for slip in slips(setting, 10)][1:] == [0, 0, 0, 0]


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 10_000))
def test_k_times_the_squared_mean_is_between_two_and_k_times_too_much(users: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    skew = divergences_of(rng.dirichlet(np.full(classes, 0.2), users))
    assume(skew.max() > 1e-6)
    ratio = users * skew.mean() ** 2 / (skew**2).mean()
    assert 2 - 1e-9 <= ratio <= users + 1e-9


def test_ends_of_that_range_are_reached() -> None:
    pair = divergences_of([[1, 0], [0, 1], *[[0.5, 0.5]] * 8])  # two opposite users among balanced ones
    alike = divergences_of(np.eye(10))
    for skew, ratio in ((pair, 2), (alike, 10)):
        row = slips(_plain(divergences=skew), 10)[-1]
        assert row.printed / row.corrected == pytest.approx(ratio)


def test_more_users_of_the_same_skew_never_hurt_once_corrected() -> None:
    totals = {
        form: [convergence_bound(_plain(divergences=np.ones(k)), 100, form).total for k in (2, 8, 32, 128)]
        for form in FORMS
    }
    assert all(np.diff(totals["corrected"]) < 0)
    assert all(np.diff(totals["sharp"]) < 0)
    assert all(np.diff(totals["printed"]) > 0)


# --- the theorem from the lemmas, and what is read off it ------------------------------------------------------------


def _plain(**changes) -> Problem:
    values = {
        "smoothness": 2.0,
        "gradient_bound": 1.5,
        "gradient_variance": 0.5,
        "step_size": 0.01,
        "local_steps": 5,
        "initial_distance": 3.0,
        "divergences": [1.0, 0.5, 0.7],
    }
    return problem(**(values | changes))


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_theorem_is_lemma_1_with_lemma_2_telescoped(steps: int) -> None:
    setting = _plain(local_steps=steps, weights=[0.5, 0.3, 0.2])
    eta, square = setting.step_size, setting.weights @ setting.divergences**2
    kept = 1 - (setting.weights**2).sum()
    separated = [2 * eta**2 * (i**2 * 1.5**2 * square + i * 0.5 * kept) for i in range(steps + 1)]
    drifts = {"corrected": np.full(steps + 1, mean_drift_bound(setting)), "sharp": np.array(separated)}
    assert all(mean_drift_bound(setting, i, "sharp") <= separated[i] * (1 + 1e-12) for i in range(steps + 1))
    for form in TRUE_FORMS:
        table = np.repeat(drifts[form][:, None], 3, axis=1)
        rest = one_round_bound(setting, table, 0.0, 0.0, form)
        for rounds in (1, 10):
            expected = rest + setting.initial_distance**2 / (2 * eta * steps * rounds)
            assert convergence_bound(setting, rounds, form).total == pytest.approx(expected, rel=1e-12)


def test_printed_theorem_is_printed() -> None:
    """Term by term, with the numbers put into the paper's formula by hand."""
    bound = convergence_bound(_plain(), 10, "printed")
    mean = (1 + 0.5 + 0.7) / 3
    assert bound.start == pytest.approx(3 / (2 * 0.01 * 5 * 10))
    assert bound.noise == pytest.approx(0.01 * 0.5 / 3)
    drift = 2 * 3 * 2 * 25 * 1e-4 * mean**2 * 1.5**2 + 6 * 3 * 2 * 5 * 1e-4 * mean**2
    assert bound.skew_drift == pytest.approx(drift)
    assert bound.noise_drift == pytest.approx(4 * 2 * 5 * 1e-4 * 0.5)
    assert user_drift_bound(_plain(), form="printed")[1] == pytest.approx(
        2 * 25 * 1e-4 * 0.25 * 2.25 + 6 * 5 * 1e-4 * 0.25 + 4 * 5 * 1e-4 * 0.5
    )


def test_user_drift_is_the_average_over_pairs() -> None:
    setting = _plain(weights=[0.5, 0.3, 0.2])
    users = range(3)
    for k in users:
        pairs = {form: [pair_drift_bound(setting, k, j, 3, form) for j in users] for form in TRUE_FORMS}
        assert user_drift_bound(setting, 3)[k] == pytest.approx(setting.weights @ pairs["corrected"])
        root = setting.weights @ np.sqrt(pairs["sharp"])
        assert user_drift_bound(setting, 3, "sharp")[k] == pytest.approx(root**2)


def test_one_local_step_has_no_drift() -> None:
    bound = convergence_bound(_plain(local_steps=1), 10, "sharp")
    assert bound.skew_drift == bound.noise_drift == 0
    with pytest.raises(FedcastError, match="local_steps"):
        rounds_curve(_plain(local_steps=1), 1.0, "sharp")


@given(st.floats(0.02, 50), st.sampled_from(FORMS), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_rounds_needed_is_the_first_that_does(target: float, form: Form, skew: float, steps: int) -> None:
    setting = _plain(divergences=[skew] * 4, local_steps=steps, gradient_variance=0.1)
    totals = [convergence_bound(setting, rounds, form).total for rounds in range(1, 1001)]
    enough = np.flatnonzero(np.array(totals) <= target)
    if len(enough):
        assert rounds_needed(setting, target, form) == enough[0] + 1
    elif convergence_bound(setting, 10**15, form).total > target:
        with pytest.raises(FedcastError, match="target"):
            rounds_needed(setting, target, form)
    else:
        assert rounds_needed(setting, target, form) > 1000


@pytest.mark.parametrize("form", FORMS)
def test_rounds_needed_is_not_one_too_many_by_rounding(form: Form) -> None:
    setting = _plain()
    reached = [rounds_needed(setting, convergence_bound(setting, rounds, form).total, form) for rounds in range(1, 200)]
    assert reached == list(range(1, 200))


@pytest.mark.parametrize("form", FORMS)
def test_rounds_curve_follows_the_bound(form: Form) -> None:
    target = convergence_bound(_plain(divergences=[1.5] * 3), 1, form).floor  # out of reach from D = 1.5 on
    curve = rounds_curve(_plain(), target, form)
    times = 3 if form == "printed" else 1
    assert curve.beta == pytest.approx(times * 1.5**2)
    for skew in (0.0, 0.4, 1.2, 1.49):
        setting = _plain(divergences=[skew] * 3)
        assert np.ceil(curve.rounds(times * skew**2)) == rounds_needed(setting, target, form)
    with pytest.raises(FedcastError, match="smaller step"):
        rounds_needed(_plain(divergences=[1.51] * 3), target, form)
    with pytest.raises(FedcastError, match="skew_square"):
        curve.rounds(curve.beta)
    with pytest.raises(FedcastError, match="target"):
        rounds_curve(_plain(), 1e-6, form)


@given(st.floats(1e-3, 10), st.sampled_from(FORMS), st.floats(0, 2), st.sampled_from([0.0, 0.5, 2.0]))
@settings(max_examples=80, deadline=None)
def test_best_step_size_against_scipy(target: float, form: Form, skew: float, variance: float) -> None:
    setting = _plain(divergences=[skew] * 3, gradient_variance=variance)
    limit = step_size_limit(2.0, form)

    def speed(eta: float) -> float:
        bound = convergence_bound(replace(setting, step_size=eta), 1, form)
        return -(target - bound.floor) / bound.start

    found = minimize_scalar(speed, bounds=(0, limit), method="bounded", options={"xatol": 1e-12})
    best = best_step_size(setting, target, form)
    assert 0 < best <= limit
    assert speed(best) <= found.fun + 1e-9 * abs(found.fun)
    assert rounds_needed(replace(setting, step_size=best), target, form) >= 1


def test_at_the_best_step_rounds_have_no_pole() -> None:
    """Ten times the skew costs about ten times the rounds, where a fixed step size ends."""
    small, large = (_plain(divergences=[d] * 3, gradient_variance=0.0) for d in (0.15, 1.5))
    few, many = (rounds_needed(replace(p, step_size=best_step_size(p, 1e-3)), 1e-3) for p in (small, large))
    assert many / few == pytest.approx(10, rel=0.01)
    with pytest.raises(FedcastError, match="smaller step"):
        rounds_needed(replace(large, step_size=best_step_size(small, 1e-3)), 1e-3)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothness": 0.0}, "smoothness: 0.0"),
        ({"smoothness": float("nan")}, "smoothness: nan"),
        ({"gradient_bound": -1.0}, "gradient_bound"),
        ({"gradient_variance": 2.3}, "gradient_bound²"),
        ({"gradient_variance": -0.1}, "gradient_variance"),
        ({"step_size": float("inf")}, "step_size"),
        ({"local_steps": 0}, "local_steps"),
        ({"local_steps": 2.5}, "local_steps"),
        ({"initial_distance": -1.0}, "initial_distance"),
        ({"divergences": [0.1, 2.1]}, "user 1"),
        ({"divergences": [float("nan")]}, "user 0"),
        ({"divergences": []}, "at least one user"),
        ({"divergences": [[1.0]]}, "one number per user"),
        ({"weights": [0.5, 0.5]}, "one number per user"),
        ({"weights": [0.5, 0.5, 0.5]}, "1.5"),
        ({"weights": [1.5, -0.5, 0.0]}, "user 1"),
    ],
)
def test_impossible_constants_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(FedcastError, match=message):
        _plain(**changes)


@pytest.mark.parametrize("form", FORMS)
def test_step_size_condition(form: Form) -> None:
    limit = step_size_limit(2.0, form)
    assert convergence_bound(_plain(step_size=limit), 1, form).total > 0
    wrong = _plain(step_size=limit * 1.001)
    calls = (
        lambda: convergence_bound(wrong, 1, form),
        lambda: one_round_bound(wrong, np.zeros((6, 3)), 1.0, 1.0, form),
        lambda: pair_drift_bound(wrong, 0, 1, form=form),
        lambda: user_drift_bound(wrong, form=form),
        lambda: mean_drift_bound(wrong, form=form),
        lambda: rounds_needed(wrong, 100.0, form),
        lambda: rounds_curve(wrong, 100.0, form),
    )
    for call in calls:
        with pytest.raises(FedcastError, match="smaller step"):
            call()


def test_beyond_the_step_size_condition_the_bound_is_false() -> None:
    """The condition is no formality: past 2/L plain descent diverges, past every bound."""
    pull = Pull(1.0, 1e6, np.array([0.0, 0.0]), np.full((1, 2), 0.5), np.ones(1))
    excess = np.mean([course.excess for course in fedavg(pull, 1.0, 2.5, 5, 4, noisy=False)])
    assert excess > 1.0 / (2 * 2.5 * 5 * 4)


def test_other_refusals() -> None:
    setting = _plain()
    uneven = _plain(weights=[0.5, 0.3, 0.2])
    with pytest.raises(FedcastError, match="equal weight"):
        convergence_bound(uneven, 1, "printed")
    with pytest.raises(FedcastError, match="equal weight"):
        best_step_size(uneven, 1.0, "printed")
    with pytest.raises(FedcastError, match="unknown"):
        step_size_limit(1.0, "exact")  # type: ignore[arg-type]
    with pytest.raises(FedcastError, match="rounds"):
        convergence_bound(setting, 0)
    with pytest.raises(FedcastError, match="step: 6"):
        mean_drift_bound(setting, 6)
    with pytest.raises(FedcastError, match=r"\[E \+ 1, K\]"):
        one_round_bound(setting, np.zeros((5, 3)), 1.0, 1.0)
    with pytest.raises(FedcastError, match="target"):
        best_step_size(setting, 0.0)
    with pytest.raises(FedcastError, match="batch_size"):
        local_steps(1, 10, 0)
    tiny = _plain(gradient_variance=0.0, divergences=[0.0], initial_distance=1e150)
    with pytest.raises(FedcastError, match="too near"):
        rounds_needed(tiny, 5e-324)


def test_local_steps_counts_the_last_short_batch() -> None:
    counted = sum(len(range(0, 61, 10)) for _ in range(3))
    assert local_steps(epochs=3, samples=61, batch_size=10) == counted


def test_problem_is_frozen() -> None:
    setting = _plain()
    with pytest.raises(ValueError, match="read-only"):
        setting.divergences[0] = 0.0
    assert RoundsCurve(1.0, 1.0) == RoundsCurve(1.0, 1.0)


# --- how near to the bounds one can come: the table of the documentation ---------------------------------------------


def _random_case(rng: np.random.Generator) -> tuple[Pull, float, bool, int, int]:
    noisy = bool(rng.random() < 0.5)
    users, steps, rounds = [(2, 1, 2), (2, 2, 2), (2, 4, 1), (3, 2, 1), (3, 3, 1)][rng.integers(5)]
    if not noisy:
        users, steps, rounds = users + int(rng.integers(6)), steps + int(rng.integers(20)), int(rng.integers(1, 6))
    first = rng.random(users) if rng.random() < 0.5 else rng.beta(0.2, 0.2, users)
    slope, smoothness = 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 1)
    edge = slope / smoothness
    width = rng.uniform(0, 2.5 * edge)
    shares = np.stack([first, 1 - first], axis=1)
    pull = Pull(smoothness, slope, np.array([-width, width]), shares, np.full(users, 1 / users))
    return pull, rng.uniform(-width - 2 * edge, width + 2 * edge), noisy, steps, rounds


def _ratios(pull: Pull, start: float, noisy: bool, steps: int, rounds: int, eta: float, form: Form) -> dict[str, float]:
    """What happened over what the bound allows; quantities that are rounding errors only are left out."""
    setting, seen = pull.setting(start, eta, steps, noisy), {}
    courses = fedavg(pull, start, eta, steps, rounds, noisy)
    scale = (pull.slope / pull.smoothness) ** 2
    total = convergence_bound(setting, rounds, form)
    excess = np.mean([course.excess for course in courses])
    if excess > 1e-6 * pull.smoothness * scale:
        squared = setting.initial_distance**2 / (2 * eta * steps * rounds)
        seen = {"theorem": excess / total.total, "theorem, A²": excess / (total.floor + squared)}
    for course, step in product(courses, range(1, steps + 1)):
        lemma = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5, form)
        users = user_drift_bound(setting, step, form)
        rows = [
            ("lemma 1", course.excess.mean(), lemma, 1e-6 * (pull.smoothness * scale + course.start2 / eta)),
            ("mean", course.drift[step] @ pull.weights, mean_drift_bound(setting, step, form), 1e-12 * scale),
            ("pair", course.pair[step, 0, 1], pair_drift_bound(setting, 0, 1, step, form), 1e-12 * scale),
            *(("user", *both, 1e-12 * scale) for both in zip(course.drift[step], users, strict=True)),
        ]
        for name, found, bound, least in rows:
            if found > least:
                seen[name] = max(seen.get(name, 0.0), float(found / max(bound, 1e-300)))
    return seen


@pytest.mark.slow
def test_the_table_of_the_documentation() -> None:
    rng, worst = np.random.default_rng(0), {form: {} for form in FORMS}
    for _ in range(3000):
        case = _random_case(rng)
        for form in FORMS:
            eta = rng.choice([0.1, 0.5, 1.0]) * step_size_limit(case[0].smoothness, form)
            for name, ratio in _ratios(*case, eta, form).items():
                worst[form][name] = max(worst[form].get(name, 0.0), ratio)
    table = {
        "printed": {"lemma 1": 0.96, "pair": 0.50, "mean": 0.50, "user": 53_809, "theorem": 443, "theorem, A²": 0.77},
        "corrected": {"lemma 1": 0.98, "pair": 0.50, "mean": 0.44, "user": 0.36, "theorem": 0.79, "theorem, A²": 0.79},
        "sharp": {"lemma 1": 0.97, "pair": 1.0, "mean": 1.0, "user": 1.0, "theorem": 0.78, "theorem, A²": 0.78},
    }
    for form in FORMS:
        assert worst[form] == pytest.approx(table[form], rel=0.02)
