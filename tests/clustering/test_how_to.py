"""The how-to page does what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from fedcast.testing.clustering import CHECKS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "add-a-clustering-rule.md").read_text(encoding="utf-8")


@pytest.fixture
def blocks(registered):
    """The page's Python blocks, after its plug-in file was run."""
    plugin, comparison = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(compile(plugin, "richest.py", "exec"), names)
    return names, comparison


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_its_rule_passes_the_kit(blocks, check):
    check("richest")


def test_its_docstring_is_true(blocks):
    names, _ = blocks
    finder = doctest.DocTestFinder().find(names["richest"], "richest", globs=names)
    assert [doctest.DocTestRunner().run(test).failed for test in finder] == [0]


def test_its_comparison_runs(blocks, capsys):
    _, comparison = blocks
    exec(compile(comparison, "comparison.py", "exec"), {})
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["daca", "gain", "richest"]
    assert all(float(row.split()[-1]) < float(row.split()[-3]) for row in rows)
