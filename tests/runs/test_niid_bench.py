"""The study of NIID-Bench: what is packed, and that the page shows the stored results."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "niid_bench"


def test_runs_are_packed_by_importance():
    scenarios = runpy.run_path(str(STUDY / "prepare.py"))["scenarios"]()
    first = [(one.data.dataset, one.training.algorithm, one.seed) for one in scenarios[:8]]
    algorithms = ("fedavg", "fedprox", "scaffold", "fednova")
    assert first == [(dataset, algorithm, 0) for dataset in ("cifar10", "mnist") for algorithm in algorithms]
    assert {one.data.partition for one in scenarios[:8]} == {"dirichlet"}
    assert len(scenarios) == 2 * 7 * 3 * (4 + 3)
    assert all(one.training.algorithm == "fedprox" for one in scenarios[2 * 7 * 3 * 4 :])


def test_the_page_shows_the_stored_results():
    read = runpy.run_path(str(STUDY / "read.py"))
    results, published = (json.loads((STUDY / f"{name}.json").read_text()) for name in ("results", "published"))
    page = read["PAGE"].read_text(encoding="utf-8")
    table = page.partition(read["START"])[2].partition(read["END"])[0].strip()
    assert table == read["table"](results, published)
    assert "| CIFAR-10 | Dir(0.5) | **65.8 (1)** / 68.2 / 63.4 |" in table


def test_cells_are_means_over_trials_of_the_best_weight():
    cell = runpy.run_path(str(STUDY / "read.py"))["cell"]

    def row(seed, accuracy, weight=None, **more):
        given = {"dataset": "mnist", "partition": "iid", "algorithm": "fedprox", "prox_weight": weight, "seed": seed}
        return given | {"accuracy": accuracy} | more

    arguments = ("mnist", "iid", "fedprox")
    assert cell([], *arguments) == "–"
    assert cell([row(0, 0.5)], *arguments) == "50.0 (1)"
    assert cell([row(0, 0.5), row(1, 0.6), row(2, 0.7)], *arguments) == "60.0 ± 8.2"
    weights = [row(0, 0.5, 0.01), row(1, 0.5, 0.01), row(0, 0.6, 0.1), row(1, 0.7, 0.1), row(0, 0.9, 1.0)]
    assert cell(weights, *arguments) == "65.0 ± 5.0 (2), μ = 0.1", "of weights with as many trials, the best"
    assert cell([row(0, 0.5, noisy_accuracy=0.4)], *arguments) == "40.0 (1)"
