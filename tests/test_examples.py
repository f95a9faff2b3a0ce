"""The examples, each started as a person would start it."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedcast.testing.algorithms import ALGORITHM_CHECKS
from fedcast.testing.allocation import CHECKS as ALLOCATION_CHECKS
from fedcast.testing.clustering import CHECKS

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def lines(request, tmp_path):
    """Return the output of the example that the test names."""
    name = f"{request.node.name.removeprefix('test_')}.py"
    path = tmp_path / name
    # A search of few steps runs the same lines as the default of 60, which takes most of the time.
    path.write_text(
        (EXAMPLES / name).read_text().replace('"training.rounds=', '"allocation.jfvo.steps=3", "training.rounds=')
    )
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def numbers(line):
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def test_every_example_is_tested_and_short():
    for path in EXAMPLES.glob("*.py"):
        assert f"test_{path.stem}" in globals()
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def test_own_allocation(lines):
    assert lines[0] == f"uniform passes all {len(ALLOCATION_CHECKS)} checks"
    assert 0 < numbers(lines[1])[0] < 30


def test_own_data(lines):
    without, with_sharing = map(numbers, lines)
    assert without[0] == without[1] == with_sharing[0] > with_sharing[1]
    assert with_sharing[2] > without[2] > 0.5


def test_stragglers(lines):
    counted = [tuple(map(int, re.findall(r"(\d+) (?:missed|surplus|dropped_out)", line))) for line in lines]
    assert [found[0] > 0 for found in counted if found] == [False, True, False, False] * 2
    assert [found[1] > 0 for found in counted if found] == [False, False, True, False] * 2
    assert [found[2] > 0 for found in counted if found] == [False, False, False, True] * 2
    seconds = [numbers(line)[1] for line in lines]
    assert seconds[1] < seconds[0]
    assert seconds[2] < seconds[0]
    assert all(numbers(line)[-1] > 1.0 for line in lines if "asynchronous" in line)


def test_compress_uploads(lines):
    full, quantized, top_k = map(numbers, lines)
    assert full[0] > quantized[0] > top_k[0]
    assert full[2] > 2 * quantized[2] > 4 * top_k[2]
    assert min(full[3], quantized[3], top_k[3]) > 0.4


def test_personalise(lines):
    for accuracy, own, worst, tuned, forgotten in map(numbers, lines):
        assert abs(own - accuracy) < 0.1
        assert worst < own < tuned
        assert forgotten < accuracy


def test_own_model(lines):
    assert [line.split(":")[0].split() for line in lines[:-1]] == [["round", str(number)] for number in range(1, 6)]
    assert numbers(lines[-2])[0] > max(numbers(lines[0])[0], 0.8)
    convolutions, norm, linear = (1 * 12 * 9 + 12) + (12 * 12 * 9 + 12), 12 + 12, 192 * 10 + 10
    assert lines[-1].startswith(f"{convolutions + norm + linear:,} weights")


def test_feddyn_plugin(lines):
    assert lines == [f"my_feddyn passes {len(ALGORITHM_CHECKS)} checks"]


def test_own_rule(lines):
    assert lines[0] == f"richest passes all {len(CHECKS)} checks"
    assert [line.split()[0] for line in lines[1:]] == ["none", "daca", "richest"]
    without, *sharing = [numbers(line) for line in lines[1:]]
    assert all(emd < without[0] and delay < without[1] for emd, delay in sharing)


def test_plan_from_tables(lines):
    roles = [line.split(",")[0] for line in lines[:6]]
    assert roles[0] == "hall keeps its data"
    assert [role.split()[0] for role in roles[1:4]] == ["gate", "yard", "roof"]
    assert all(role.endswith("samples of hall") for role in roles[1:4])
    assert roles[4] == "lab keeps its data"
    assert roles[5].startswith("shop receives")
    assert roles[5].endswith("of lab"), "roof-shop is the faster link, but without trust"
    without, with_sharing = numbers(lines[6])
    assert with_sharing < without
    assert lines[7] == "PyTorch was not loaded"


def test_resume(lines):
    assert lines[0] == "stopped after round 3"
    assert lines[1].startswith("resumed up to round 8")
    assert lines[2] == "the same as without the interruption: True"


def test_compare(lines):
    assert [line.split()[0] for line in lines] == ["rule", "FedAvg", "daca", "blend"]
    baseline, *others = [numbers(line) for line in lines[1:]]
    assert len(baseline) == 4, "no test of FedAvg against itself"
    assert all(other[0] < baseline[0] and 0 < other[4] < 1 for other in others)


def run_cell(source, names):
    """Do what a notebook does with a cell: return the value of its last expression, if it ends in one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_notebook(tmp_path, monkeypatch):
    """Every cell, in order; what is shown has a short text and a table."""
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    displayed = []
    display = ModuleType("IPython.display")
    display.display = displayed.append
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    content = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    names: dict = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in content["cells"] if cell["cell_type"] == "code"]
    for value in [one for one in shown if hasattr(one, "_repr_html_")] + displayed:
        assert len(repr(value)) < 5_000
        assert value._repr_html_().startswith("<") or "<table" in value._repr_html_()
    assert [type(value).__name__ for value in shown[:6]] == [
        "Scenario", "World", "SharingPlan", "DataFrame", "StoredRun", "DataFrame",
    ]  # fmt: skip
    assert all(len(repr(value)) < 300 for value in [*shown[:3], shown[4], *displayed])
    assert [row.strategy.name for row in displayed[0]] == ["FedAvg", "daca"]
    assert len(displayed) == 2
    assert "To several targets" in shown[-1].read_text()
    assert not any(cell.get("outputs") for cell in content["cells"])
