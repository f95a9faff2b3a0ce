"""Spreading data over users and measuring their skew."""

from __future__ import annotations

from fedcast.data import average_emd, data_folders, describe, find_source, make_population, populate, skew_of
from fedcast.data.mnist import SOURCES
from fedcast.scenario import Data
from harness import Figure, peak_extra_mib, run, seconds


def measured(data: Data) -> float:
    return average_emd(skew_of(describe(make_population(data), data)))


def measure(quick: bool) -> dict[str, Figure]:
    repeats = 3 if quick else 9
    figures = {}
    if find_source(SOURCES, data_folders()):
        mnist = Data(dataset="mnist", partition="dirichlet", num_users=1000, tables={"dirichlet": {"alpha": 0.1}})
        how = f"load, spread and measure MNIST, K = 1,000, Dir 0.1, median of {repeats}"
        figures["data.mnist_1e3_s"] = Figure(seconds(lambda: measured(mnist), repeats), "s", how)
    many = Data(dataset="synthetic", partition="dirichlet", num_users=100_000)
    how = f"synthetic counts, K = 100,000, Dir 0.1, median of {repeats}"
    figures["data.synthetic_1e5_s"] = Figure(seconds(lambda: measured(many), repeats), "s", how)
    if (peak := peak_extra_mib(lambda: measured(many))) is not None:
        figures["data.synthetic_1e5_mib"] = Figure(peak, "MiB", "peak extra memory of the same")
    digits = make_population(Data(num_users=10)).dataset
    assert digits is not None
    tiny = Data(partition="dirichlet", num_users=1000, tables={"dirichlet": {"alpha": 0.01}})
    how = f"digits over 1,000 users, Dir 0.01, where redrawing until it fits does not end; median of {repeats}"
    figures["data.dirichlet_tiny_s"] = Figure(seconds(lambda: populate(digits, tiny), repeats), "s", how)
    return figures


if __name__ == "__main__":
    run("data and skew", measure)
