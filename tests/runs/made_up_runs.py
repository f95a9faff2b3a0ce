"""Runs of which the law is known, and a small scenario that they could be of."""

from __future__ import annotations

import numpy as np

from fedcast.runs import RoundsRun
from fedcast.scenario import load_scenario

SMALL = [
    "data.num_users=12",
    "training.model=mlp",
    "training.device=cpu",
    "training.rounds=4",
    "seed=5",
    "training.local_epochs=5",
    "training.learning_rate=0.1",
]


def small(*changes):
    return load_scenario(base="digits", overrides=[*SMALL, *changes])


def made_up(setting, noise=0.0, rounds=80):
    """Accuracy 1 - 0.9 exp(-t/τ) with τ by a law: rounds to every target follow the same one."""
    level = 0.5 if setting.level is None else setting.level
    emd, steps = 1.7 * level * (1 - 0.5 * setting.sharing_ratio), 8.0 * setting.local_epochs
    slow = _tau(emd, steps, setting.learning_rate)
    slow *= np.exp(noise * np.random.default_rng(setting.seed).logistic())
    course = 1 - 0.9 * np.exp(-np.arange(rounds + 1) / slow)
    top = np.flatnonzero(course >= 0.88)
    return RoundsRun(setting, emd, emd / 4, 0.0, steps, tuple(course[: top[0] + 1 if len(top) else None].tolist()))


def rounds_to_085(emd, steps, rate):
    """Solve the accuracy of `made_up` for the time to 0.85."""
    return _tau(emd, steps, rate) * np.log(0.9 / 0.15)


def _tau(emd, steps, rate):
    return 120 * steps**-0.8 * rate**-0.7 / (4 - emd**2)
