"""The constrained graph: time, growth and memory at a million users, and the dense way beside it."""

from __future__ import annotations

import math
import multiprocessing
import os
import tempfile
from collections.abc import Callable

import numpy as np

from fedcast.network import Graph, Layout, build_graph, closeness, place_users, rate_bps
from fedcast.scenario import Geometry, Sidelink, Trust
from harness import Figure, peak_extra_mib, run, seconds

SEED = 0
MEAN_DEGREE = 20
GEOMETRY = Geometry()
TRUST = Trust()
TRUSTED_SHARE = 1 - TRUST.min_closeness  # closeness is uniform
REACH_M = GEOMETRY.cell_radius_m * math.sqrt(MEAN_DEGREE / TRUSTED_SHARE / GEOMETRY.users_per_cell)
SIDELINK = Sidelink(min_rate_bps=float(rate_bps(REACH_M, Sidelink(), GEOMETRY)))


def builder(layout: Layout) -> Callable[[], Graph]:
    return lambda: build_graph(layout, SIDELINK, TRUST, GEOMETRY, SEED)


def ten_times(action: Callable[[], object]) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(10):
            action()

    return repeated


def place(num_users: int) -> Layout:
    return place_users(num_users, GEOMETRY, SEED)


def dense_way(layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables of all pairs: distance, rate, closeness, and the entries that meet both thresholds."""
    users = np.arange(len(layout.positions_m))
    x, y = layout.positions_m.T
    distance_m = np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
    rates = rate_bps(distance_m, SIDELINK, GEOMETRY)
    close = closeness(users[:, None], users[None, :], TRUST, SEED)
    linked = (rates >= SIDELINK.min_rate_bps) & (close >= TRUST.min_closeness)
    np.fill_diagonal(linked, False)
    return np.argwhere(linked), rates[linked], close[linked]


def in_a_fresh_process() -> tuple[float, float | None]:
    """Seconds of the first call, nothing compiled before; peak memory of a later call at a million users, MiB."""
    first_call_s = seconds(builder(place(20_000)))
    return first_call_s, peak_extra_mib(builder(place(1_000_000)))


def measure_fresh() -> tuple[float, float | None]:
    with tempfile.TemporaryDirectory() as no_compiled_code:
        os.environ["NUMBA_CACHE_DIR"] = no_compiled_code
        try:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                return pool.apply(in_a_fresh_process)
        finally:
            del os.environ["NUMBA_CACHE_DIR"]


def measure_scale(repeats: int) -> dict[str, Figure]:
    small, large = place(100_000), place(1_000_000)
    graph = builder(large)()
    builder(small)()
    # Ten small graphs against one large: whatever else the machine does then slows both alike.
    rounds = [(seconds(builder(large)), seconds(ten_times(builder(small))) / 10) for _ in range(repeats)]
    large_s, small_s = (float(np.median(times)) for times in zip(*rounds, strict=True))
    degree = f"mean degree {graph.degrees.mean():.1f}"
    setting = (
        f"100 users per disc of 1 km, thresholds {SIDELINK.min_rate_bps:.3g} bit/s (reach {REACH_M:.0f} m) and 0.5"
    )
    return {
        "network.graph_1e6_s": Figure(large_s, "s", f"median of {repeats}, warm, one core; {setting}: {degree}"),
        "network.graph_growth": Figure(
            large_s / small_s, "", f"time(10^6)/time(10^5), {small_s * 1e3:.0f} ms at 10^5, taken in turns"
        ),
    }


def measure_dense(repeats: int) -> Figure:
    layout = place(5_000)
    sparse = builder(layout)
    if len(dense_way(layout)[0]) != 2 * sparse().num_links:
        raise AssertionError("the dense way gives other links")
    rounds = [(seconds(lambda: dense_way(layout)), seconds(sparse, 5)) for _ in range(repeats)]
    dense_s, sparse_s = (float(np.median(times)) for times in zip(*rounds, strict=True))
    how = f"tables of all 5,000 x 5,000 pairs {dense_s:.2f} s, ours {sparse_s * 1e3:.1f} ms, same links, taken in turns"
    return Figure(dense_s / sparse_s, "", how)


def measure(quick: bool) -> dict[str, Figure]:
    first_call_s, peak_mib = measure_fresh()
    figures = measure_scale(repeats=3 if quick else 9)
    if peak_mib is not None:
        how = (
            f"peak resident memory above the layout's, fresh process; first call there {first_call_s:.1f} s (compiling)"
        )
        figures["network.graph_1e6_mib"] = Figure(peak_mib, "MiB", how)
    figures["network.ratio_dense_5000"] = measure_dense(repeats=1 if quick else 5)
    return figures


if __name__ == "__main__":
    run("the constrained graph", measure)
