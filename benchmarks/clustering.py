"""Clustering: time, growth and memory up to a million users, the paper's steps beside ours, gaps to the optimum."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedcast.clustering import Clustering, Problem, cluster, disc_problem, make_problem, user_counts
from fedcast.data import average_emd, skew_of
from fedcast.network import closeness, rate_bps
from fedcast.scenario import ClusteringSettings
from harness import Figure, peak_extra_mib, run, seconds
from network import GEOMETRY, SEED, SIDELINK, TRUST, builder, place

REACHES_M = (400, 700, 1000)
GAP_RULES = ("gain", "daca", "scc", "cec")


def problem_of(num_users: int, **options: Any) -> Problem:
    """Half the users hold one class of ten, the others all, on the graph of benchmarks/network.py."""
    skew = skew_of(user_counts(num_users, "paper", seed=SEED))
    return make_problem(skew, builder(place(num_users))(), ClusteringSettings(**options), seed=SEED)


def solver(problem: Problem, **options: Any) -> Callable[[], Clustering]:
    """Solve from scratch: nothing that a problem remembers is kept from one call to the next."""
    settings = problem.settings.model_copy(update=options)
    return lambda: cluster(replace(problem, settings=settings))


def measure_scale(repeats: int) -> dict[str, Figure]:
    small, large = problem_of(100_000), problem_of(1_000_000)
    for problem in (small, large):
        solver(problem, rule="daca")(), solver(problem, rule="gain", weighting="C")()
    rounds = [
        (seconds(solver(large, rule="daca")), seconds(solver(small, rule="daca"), 3)) for _ in range(max(3, repeats))
    ]
    large_s, small_s = (float(np.median(times)) for times in zip(*rounds, strict=True))
    gain = solver(large, rule="gain", weighting="C")
    setting = (
        f"label skew, ten classes, mean degree {large.graph.degrees.mean():.1f}, warm, one core, graph not counted"
    )
    figures = {
        "clustering.daca_1e6_s": Figure(large_s, "s", f"median of {len(rounds)}; {setting}"),
        "clustering.gain_1e6_s": Figure(seconds(gain, repeats), "s", f"weighting C, median of {repeats}; {setting}"),
        "clustering.growth": Figure(
            large_s / small_s, "", f"DACA, time(10^6)/time(10^5), {small_s * 1e3:.0f} ms at 10^5, taken in turns"
        ),
    }
    for name, action in {"daca": solver(large, rule="daca"), "gain": gain}.items():
        give_back_free_memory()
        peak_mib = peak_extra_mib(action)
        if peak_mib is not None:
            how = "peak resident memory on top of graph and data, 10^6 users"
            figures[f"clustering.{name}_1e6_mib"] = Figure(peak_mib, "MiB", how)
    return figures


def give_back_free_memory() -> None:
    """Have the C library return what earlier calls have freed, so that the next call is seen to take it again."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def literal_daca(problem: Problem, close: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Algorithm 1 as printed, on tables of all pairs (but in ascending order, and row by row instead of by pairs)."""
    skew, users = problem.skew, problem.num_users
    emd = np.array([np.abs(row - skew.global_distribution).sum() for row in skew.distributions])
    difference = np.empty((users, users))
    for user in range(users):
        difference[user] = emd[user] - emd
    linked = (close >= TRUST.min_closeness) & (rates >= SIDELINK.min_rate_bps)
    np.fill_diagonal(linked, False)
    weights = np.where(linked, difference, -np.inf)
    covered, heads = np.zeros(users, dtype=bool), []
    for user in sorted(range(users), key=lambda user: (round(float(emd[user]), 12), user)):
        if not covered[user]:
            heads.append(user)
            covered |= linked[user]
            covered[user] = True
    heads.sort()
    to_heads = weights[:, heads]
    to_heads[heads] = -np.inf
    head_of = np.full(users, -1)
    while True:  # while M ∪ C ≠ K: the largest edge between a head and a user that is still free
        member, place_of_head = np.unravel_index(np.argmax(to_heads), to_heads.shape)
        if to_heads[member, place_of_head] == -np.inf:
            return head_of
        head_of[member] = heads[place_of_head]
        to_heads[member] = -np.inf


def measure_literal(repeats: int) -> Figure:
    problem, users = problem_of(3_000, rule="daca"), np.arange(3_000)
    x, y = place(3_000).positions_m.T
    rates = rate_bps(np.hypot(x[:, None] - x, y[:, None] - y), SIDELINK, GEOMETRY)
    close = closeness(users[:, None], users[None, :], TRUST, SEED)
    ours = solver(problem)
    if ours().head_of.tolist() != literal_daca(problem, close, rates).tolist():
        raise AssertionError("the printed steps give other clusters")
    rounds = [(seconds(lambda: literal_daca(problem, close, rates)), seconds(ours, 9)) for _ in range(repeats)]
    literal_s, ours_s = (float(np.median(times)) for times in zip(*rounds, strict=True))
    how = (
        f"Algorithm 1 on tables of all pairs {literal_s:.2f} s, ours {ours_s * 1e3:.1f} ms, same clusters, no compiler"
    )
    return Figure(literal_s / ours_s, "", how)


def measure_gaps(instances: int) -> dict[str, Figure]:
    gaps: dict[str, list[float]] = {rule: [] for rule in GAP_RULES}
    proven = 0
    for number in range(instances):
        problem = disc_problem(60, REACHES_M[number % 3], seed=1000 + number, weighting="B", composition="own")
        best = solver(problem, rule="exact")().proof
        assert best is not None
        proven += best.optimal
        for rule in GAP_RULES:
            value = average_emd(problem.skew, solver(problem, rule=rule)().after, "B")
            gaps[rule].append(100 * (value / best.value - 1))
    how = (
        f"mean of {instances} instances, {proven} proven optimal, K = 60, links up to 400, 700, 1,000 m, label skew, "
        "10 % shared as it comes, weighting B"
    )
    return {f"clustering.gap_{rule}_pct": Figure(float(np.mean(gaps[rule])), "%", how) for rule in GAP_RULES}


def measure_blend(quick: bool) -> dict[str, Figure]:
    figures = {}
    for users, name in ((1_000, "1e3"),) if quick else ((1_000, "1e3"), (100_000, "1e5")):
        action = solver(problem_of(users), rule="blend")
        action()
        how = f"{users:,} users on the same kind of graph, label skew, weighting B, median of 3"
        figures[f"clustering.blend_{name}_s"] = Figure(seconds(action, 3), "s", how)
    return figures


def measure(quick: bool) -> dict[str, Figure]:
    figures = measure_scale(repeats=1 if quick else 5)
    figures["clustering.ratio_literal_3000"] = measure_literal(repeats=1 if quick else 5)
    figures |= measure_blend(quick)
    figures |= measure_gaps(instances=9 if quick else 60)
    return figures


if __name__ == "__main__":
    run("clustering", measure)
