"""The exact inner solver beside CVXPY, and how far JFVO stays from the global optimum."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedcast.allocation import METHODS
from fedcast.allocation.inner import BoxMinimum, minimise_compiled, minimise_sorted
from fedcast.plan import make_plan
from fedcast.rounds import RoundsModel, load_fit
from fedcast.scenario import Allocation, load_scenario
from fedcast.testing.allocation import REGIMES, random_case
from harness import Figure, run, seconds

Inner = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
SIZES = (5, 20, 100, 300, 1000)


def random_inner(clusters: int, seed: int) -> Inner:
    draw = np.random.default_rng(seed)
    rate, curvature = np.exp(draw.normal(0, 1, clusters)), np.exp(draw.normal(-1, 1, clusters))
    linear, upper = draw.normal(-0.5, 1, clusters), draw.uniform(0.1, 1, clusters)
    return float(draw.uniform(0.05, 0.3) * clusters), rate, linear, curvature, upper


def by_cvxpy(instance: Inner) -> np.ndarray:
    cp: Any = importlib.import_module("cvxpy")
    weight, rate, linear, curvature, upper = instance
    # Of three ways to write it, the one that CVXPY builds and solves fastest.
    x, time = cp.Variable(len(rate)), cp.Variable()
    objective = weight * time + linear @ x + cp.sum(cp.multiply(curvature / 2, cp.square(x)))
    cp.Problem(cp.Minimize(objective), [x >= 0, x <= upper, x <= rate * time]).solve(solver="CLARABEL")
    return np.asarray(x.value)


def per_call(solver: Callable[..., BoxMinimum], instances: list[Inner]) -> float:
    """Seconds of one call: many calls are timed at once, since one takes microseconds."""
    calls = 50

    def many() -> None:
        for _ in range(calls):
            for instance in instances:
                solver(*instance)

    return seconds(many) / (calls * len(instances))


def in_turns(instances: list[Inner], repeats: int) -> list[float]:
    """Median seconds of CVXPY, NumPy and compiled, taken in turns so that a busy machine slows all of them alike."""
    turns = [
        [
            seconds(lambda: [by_cvxpy(instance) for instance in instances]) / len(instances),
            per_call(minimise_sorted, instances),
            per_call(minimise_compiled, instances),
        ]
        for _ in range(1 + repeats)
    ]
    # The first turn loads and compiles.
    return [float(value) for value in np.median(turns[1:], axis=0)]


def measure_ratios(repeats: int) -> dict[str, Figure]:
    rows: dict[str, list[tuple[float, int, float, float]]] = {"numpy": [], "compiled": []}
    for clusters in SIZES:
        theirs, *ours = in_turns([random_inner(clusters, seed) for seed in range(4)], repeats)
        for name, taken in zip(rows, ours, strict=True):
            rows[name].append((theirs / taken, clusters, theirs, taken))
    names = {"numpy": "allocation.ratio_cvxpy_min_numpy", "compiled": "allocation.ratio_cvxpy_min"}
    figures = {}
    for way in ("compiled", "numpy"):
        ratio = min(rows[way])[0]
        each = "; ".join(f"M={m}: {1e3 * t:.2f} ms over {1e6 * o:.1f} us = {r:.0f}" for r, m, t, o in rows[way])
        how = f"CVXPY with Clarabel, build and solve, over the inner solver ({way}), smallest of {each}"
        figures[names[way]] = Figure(ratio, "", how)
    return figures


def first_call_s() -> float:
    """Seconds of the first compiled call in a fresh process."""
    return seconds(lambda: minimise_compiled(*random_inner(100, 0)))


def measure_compile() -> Figure:
    with tempfile.TemporaryDirectory() as no_compiled_code:
        os.environ["NUMBA_CACHE_DIR"] = no_compiled_code
        try:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cold = pool.apply(first_call_s)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                warm = pool.apply(first_call_s)
        finally:
            del os.environ["NUMBA_CACHE_DIR"]
    how = f"first compiled call in a fresh process, empty cache; {warm:.2f} s with the cache; unused below 2,500 heads"
    return Figure(cold, "s", how)


def rounds_models() -> dict[str, RoundsModel]:
    """Return a rounds model of each form but `extended`: its shift couples the clusters, and no optimum is known."""
    return {
        "paper": load_fit("paper-0.95").model("paper", round_scale=100),
        "theory": load_fit("mnist-0.95").model("theory"),
        "law": load_fit("mnist").law(0.95).model("mnist", learning_rate=0.1),
    }


def measure_gap(seeds: int) -> Figure:
    settings = Allocation(max_sharing_ratio=1.0)
    means, unproven = {}, []
    for (form, model), weighting, regime in itertools.product(rounds_models().items(), ("B", "C"), REGIMES):
        gaps = []
        for seed in range(seeds):
            case = replace(random_case(seed, regime, weighting=weighting), model=model)
            problem = case.problem(settings, seed=seed, batch_size=4)
            best = METHODS["oracle"](problem)
            ours_s, best_s = (problem.objective_s(problem.at(x)) for x in (METHODS["jfvo"](problem).x, best.x))
            gaps.append(100 * (ours_s / best_s - 1))
            if best.bound_s is not None:
                unproven.append(100 * (1 - best.bound_s / best_s))
        means[f"{form} {weighting} {regime}"] = float(np.mean(gaps))
    each = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
    how = (
        f"mean gap of jfvo to the oracle over {seeds} seeds, K = 60, 60 steps, ratios up to 1; largest of {each}; with "
        f"form law the oracle's delay is proven to {np.mean(unproven):.2f} % on average, {max(unproven):.2f} % at most"
    )
    return Figure(max(means.values()), "%", how)


def measure_plan(num_users: int, repeats: int) -> Figure:
    scenario = load_scenario(overrides=["data.dataset=synthetic", f"data.num_users={num_users}"])
    make_plan(scenario)
    how = (
        f"synthetic population to plan, {num_users:,} users: rule, volumes, local epochs, and the curve against leakage"
    )
    return Figure(seconds(lambda: make_plan(scenario), repeats), "s", f"{how}; median of {repeats}, warm")


def measure(quick: bool) -> dict[str, Figure]:
    figures = measure_ratios(repeats=5 if quick else 25)
    figures["allocation.compile_s"] = measure_compile()
    figures["allocation.gap_jfvo_pct_max"] = measure_gap(seeds=6 if quick else 20)
    figures["allocation.plan_1e3_s"] = measure_plan(1_000, 3)
    if not quick:
        figures["allocation.plan_1e5_s"] = measure_plan(100_000, 3)
    return figures


if __name__ == "__main__":
    run("the allocation", measure)
