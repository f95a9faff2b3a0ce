"""FedAvg itself, with exact expectations, on losses made so that the assumptions hold with known constants.

Class y pulls a model w (one number) to its centre with the force clip(L (w − c_y), ±G): convex, L-smooth, gradients at
most G, and far from both centres every gradient is ±G, where ‖∇F_k − ∇F‖ = D_k G exactly. A user draws one class per
step, so that E SGD steps of K users have Y^(E K) courses, few enough to sum over.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from fedcast_paper.theory import ConvexProblem, Form, divergences_of, problem

FORMS: tuple[Form, ...] = get_args(Form)
TRUE_FORMS: tuple[Form, ...] = ("corrected", "sharp")
SLACK = 1e-9


@dataclass(frozen=True)
class Pull:
    """Users whose classes pull one number to their centres."""

    smoothness: float
    slope: float
    centres: np.ndarray
    distributions: np.ndarray
    weights: np.ndarray

    @property
    def equal_users(self) -> bool:
        return bool(np.ptp(self.weights) < 1e-12)

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

    def setting(self, start: float, step_size: float, steps: int, noisy: bool = True) -> ConvexProblem:
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


@dataclass(frozen=True)
class Cloud:
    """Return all states of the users' models, models[S, K], and their probabilities, odds[S]."""

    models: np.ndarray
    odds: np.ndarray

    def expected(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.odds, values, axes=1)


def fedavg(
    pull: Pull, start: float, eta: float, steps: int, rounds: int, noisy: bool, sign: float = -1.0
) -> list[Course]:
    """FedAvg with every course of the draws and its probability; `noisy` False: full gradients."""
    users, best = len(pull.weights), pull.optimum()
    cloud, courses = Cloud(np.full((1, users), start), np.ones(1)), []
    for _ in range(rounds):
        clouds = [cloud]
        for _ in range(steps):
            clouds.append(_after_step(pull, clouds[-1], sign * eta, noisy))
        courses.append(_course(pull, clouds, best))
        mean = clouds[-1].models @ pull.weights
        cloud = Cloud(np.repeat(mean[:, None], users, axis=1), clouds[-1].odds)
    return courses


def _after_step(pull: Pull, cloud: Cloud, along: float, noisy: bool) -> Cloud:
    slopes = pull.class_gradients(cloud.models)
    if not noisy:
        return Cloud(cloud.models + along * (slopes * pull.distributions).sum(axis=-1), cloud.odds)
    users = np.arange(len(pull.weights))
    draws = np.array(list(product(range(len(pull.centres)), repeat=len(users))))
    chance = np.prod(pull.distributions[users, draws], axis=1)
    moved = cloud.models[:, None, :] + along * slopes[:, users, draws]
    return Cloud(moved.reshape(-1, len(users)), np.outer(cloud.odds, chance).ravel())


def _course(pull: Pull, clouds: list[Cloud], best: float) -> Course:
    means = [cloud.models @ pull.weights for cloud in clouds]
    both = list(zip(clouds, means, strict=True))
    least = pull.loss(np.array(best))
    ends = [float(cloud.expected((mean - best) ** 2)) for cloud, mean in (both[0], both[-1])]
    return Course(
        np.array([cloud.expected(pull.loss(mean)) - least for cloud, mean in both[1:]]),
        np.array([cloud.expected((cloud.models - mean[:, None]) ** 2) for cloud, mean in both]),
        np.array([cloud.expected((cloud.models[:, :, None] - cloud.models[:, None, :]) ** 2) for cloud in clouds]),
        *ends,
    )


@st.composite
def pulls(draw: st.DrawFn) -> tuple[Pull, float, bool, int, int]:
    """A random problem, where to start, whether draws are noisy, and (E, T) small enough to enumerate."""
    noisy = draw(st.booleans())
    users, steps, rounds = draw(st.sampled_from([(2, 1, 2), (2, 2, 2), (2, 4, 1), (3, 2, 1), (3, 3, 1)]))
    if not noisy:
        users, steps = users + draw(st.integers(0, 4)), steps + draw(st.integers(0, 12))
    first = np.array(draw(st.lists(st.floats(0, 1), min_size=users, max_size=users)))
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


def forms_for(pull: Pull) -> list[Form]:
    """The forms that apply: the printed one only where users weigh the same."""
    return [form for form in FORMS if form != "printed" or pull.equal_users]


def plain(**changes: Any) -> ConvexProblem:
    """A problem of three users, changed as told."""
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
