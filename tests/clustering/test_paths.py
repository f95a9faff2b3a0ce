"""Small worlds run in the interpreter, large ones compiled: the same clusterings, and no compiler where it is small."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fedcast._fast import kernels
from fedcast.clustering import RULES, cluster
from fedcast.clustering.costs import _breadth_first, _visiting_order, cost_drops
from fedcast.clustering.rules import with_composition
from fedcast.clustering.sample_problems import disc_problem


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("none", "random")])
@pytest.mark.parametrize("data", ["paper", "dirichlet"])
def test_compiled_and_interpreted_rules_agree(monkeypatch, rule, data):
    options = {"rule": rule, "data": data, "weighting": "BC"[data == "paper"]}
    monkeypatch.setattr(kernels, "INTERPRETED_STEPS", float("inf"))
    interpreted = cluster(disc_problem(80, 400, seed=3, **options))
    monkeypatch.setattr(kernels, "INTERPRETED_STEPS", -1)
    compiled = cluster(disc_problem(80, 400, seed=3, **options))
    assert interpreted.head_of.tolist() == compiled.head_of.tolist()
    assert len(interpreted.members) > 20 or rule == "central"


def test_a_kernel_that_is_called_again_and_again_is_compiled(monkeypatch):
    def kernel(values, out):
        out[0] += len(values)

    asked = []
    monkeypatch.setattr(kernels, "compiled", lambda one: asked.append(one) or one)
    monkeypatch.setattr(kernels, "sys", type("NoNumba", (), {"modules": {}}))
    out = np.zeros(1)
    for _ in range(5):
        kernels.run_kernel(kernel, [np.zeros(3)], [out], steps=kernels.INTERPRETED_STEPS // 4)
    assert (len(asked), out[0]) == (1, 15.0)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("measure", ["emd", "js"])
def test_compiled_and_numpy_costs_agree(monkeypatch, weighting, measure):
    problem = with_composition(disc_problem(200, 300, seed=3, data="mixed", weighting=weighting), "gain")
    problem.volumes[:50] = 0
    problem.skew.sizes[100:110] = 0
    problem.volumes[100:110] = 0
    plain = cost_drops(problem, measure)
    monkeypatch.setattr(kernels, "INTERPRETED_STEPS", -1)
    np.testing.assert_allclose(cost_drops(problem, measure), plain, rtol=0, atol=1e-9)
    monkeypatch.setattr(kernels, "compiled", lambda kernel: kernel)
    np.testing.assert_allclose(cost_drops(problem, measure), plain, rtol=0, atol=1e-9)


def test_breadth_first_visits_everybody_once_and_neighbours_soon():
    graph = disc_problem(300, 150, seed=3).graph
    order = np.zeros(300, dtype=np.int32)
    _breadth_first(graph.offsets, graph.neighbours, np.zeros(300, dtype=np.int8), order)
    assert sorted(order.tolist()) == list(range(300))
    place = np.argsort(order)
    users = np.repeat(np.arange(300), graph.degrees)
    apart_before = np.abs(users - graph.neighbours).mean()
    assert np.abs(place[users] - place[graph.neighbours]).mean() < apart_before / 2
    assert sorted(_visiting_order(graph).tolist()) == list(range(300))


@pytest.mark.usefixtures("no_kernel_cache")
def test_without_a_folder_to_write_to_kernels_are_compiled_all_the_same(monkeypatch):
    kernels._compiled_module.cache_clear()
    monkeypatch.setattr(kernels, "INTERPRETED_STEPS", -1)
    compiled = cluster(disc_problem(30, 500, seed=3))
    monkeypatch.undo()
    kernels._compiled_module.cache_clear()
    assert compiled.head_of.tolist() == cluster(disc_problem(30, 500, seed=3)).head_of.tolist()


def test_no_compiler_and_no_solver_is_loaded_for_a_thousand_users():
    code = """
import sys
from fedcast.clustering import RULES, cluster
from fedcast.clustering.sample_problems import disc_problem
for rule in RULES:
    if rule != "exact":
        cluster(disc_problem(1000, 210, seed=0, rule=rule))
print(sorted({name.split(".")[0] for name in sys.modules} & {"numba", "scipy", "torch"}))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
