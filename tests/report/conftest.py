"""Runs to report on: real ones, made once; and made-up ones where numbers must be known or large."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcast import load_scenario, with_overrides
from fedcast.plan import SharingPlan
from fedcast.report import write_report
from fedcast.runs.facts import Facts
from fedcast.runs.stored_run import StoredRun, load_run
from fedcast.runs.sweeps import grid, sweep
from fedcast.training import History, Record

# Samples of few bits, so that it pays to share them.
FEW = [
    "data.num_users=24", "training.model=mlp", "training.rounds=8", "training.local_epochs=3",
    "data.bits_per_sample=16",
]  # fmt: skip
TARGET = 0.4
BASE = with_overrides(load_scenario(base="digits"), {"rounds.target_accuracy": 0.5})
ZERO = dict.fromkeys(Facts.__dataclass_fields__, 0.0)


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory) -> list[StoredRun]:
    """FedAvg and DACA on two seeds, with a target that they meet."""
    shared = "PYTEST_XDIST_WORKER" in os.environ  # finished runs are shared: one worker makes them, the others wait
    store = tmp_path_factory.getbasetemp().parent / "reported" if shared else tmp_path_factory.mktemp("reported")
    scenarios = grid(load_scenario(base="digits", overrides=FEW), ["none", "daca"], seeds=[0, 1])
    return [with_target(load_run(folder), TARGET) for folder in sweep(scenarios, store)]


@pytest.fixture(scope="session")
def real_page(real_runs, tmp_path_factory) -> Path:
    return write_report(real_runs, tmp_path_factory.mktemp("page") / "report.html")


def with_target(run: StoredRun, target: float) -> StoredRun:
    """The run as if another accuracy had been asked for."""
    return replace(run, scenario=with_overrides(run.scenario, {"rounds.target_accuracy": target}))


def made_run(
    rule: str,
    seed: int,
    accuracies: list[float],
    *,
    users: int = 6,
    classes: int = 4,
    sharing_s: float = 0.0,
    changes: dict[str, object] | None = None,
    plan: SharingPlan | None = None,
) -> StoredRun:
    """A run whose rounds take 6 s; user 0 leads all of the first half, if it shares at all."""
    records = [
        Record(
            number, 1.0, 2.0 - value, value, value, value / 2, 0.0, users, sharing_s + 6.0 * number, 5.0 * number, 7e3
        )
        for number, value in enumerate(accuracies)
    ]
    led = users // 2 - 1 if rule != "none" else 0
    known = {"download_s": 1.0, "compute_s": 2.0, "upload_s": 3.0, "sharing_s": sharing_s, "emd_before": 1.5}
    counts = {"heads": int(led > 0), "members": led, "received_samples": 2 * led, "distinct_samples": 2 * (led > 0)}
    values = {"clustering.rule": rule, "seed": seed, "data.num_users": users, **(changes or {})}
    run = StoredRun(
        folder=Path(f"{rule}-{seed}"),
        scenario=with_overrides(BASE, values),
        facts=Facts(**{**ZERO, **known, **counts, "emd_after": 1.2, "largest_revealed_share": 0.2 * (led > 0)}),
        history=History(records),
        plan=plan,
        versions={"fedcast": "0.1.0", "torch": "2.13.0"},
    )
    run.__dict__["tables"] = _tables(users, classes, led)
    return run


def _tables(users: int, classes: int, led: int) -> dict[str, dict[str, list]]:
    rng = np.random.default_rng(users)
    member = [0 < user <= led for user in range(users)]
    status = ["head" if led and user == 0 else "member" if led and member[user] else "no link" for user in range(users)]
    before = np.zeros((users, classes), dtype=int)
    before[np.arange(users), np.arange(users) % classes] = 10
    after = before + 2 * np.array(member, dtype=int)[:, None] * (np.arange(classes) == 0)
    heads = {
        "head": 0, "why": "has the lowest EMD of its neighbours", "emd": 0.4, "emd_rank": 1, "reaches": led,
        "members": led, "shared": 2.0, "mean_emd_before": 1.5, "mean_emd_after": 1.1, "drop": 0.2,
        "worst_rate_bps": 4e5,
    }  # fmt: skip
    return {
        "users": {
            "user": list(range(users)),
            "x_m": rng.uniform(-500, 500, users).tolist(),
            "y_m": rng.uniform(-500, 500, users).tolist(),
            "samples": [10] * users,
            "status": status,
            "reason": ["it meets both thresholds with nobody"] * users,
            "head": [0 if one else None for one in member],
            "received": [2.0 if one else 0.0 for one in member],
            "sent": [0.0] * users,
            "emd_before": [1.5] * users,
            "emd_after": [1.1 if one else 1.5 for one in member],
            "rate_bps": [5e5 if one else None for one in member],
            "closeness": [0.75 if one else None for one in member],
            "frequency_hz": [1e9] * users,
            "round_j": rng.uniform(0.01, 0.04, users).tolist(),
            "revealed_share": [0.2 if led and user == 0 else 0.0 for user in range(users)],
        },
        "heads": {name: [value] if led else [] for name, value in heads.items()},
        "classes": {
            "user": list(range(users)),
            **{f"before_{label}": before[:, label].tolist() for label in range(classes)},
            **{f"after_{label}": after[:, label].tolist() for label in range(classes)},
        },
    }
