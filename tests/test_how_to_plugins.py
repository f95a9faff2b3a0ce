"""The plug-in files shown on the how-to pages work, with the scenarios shown beside them."""

import re
from pathlib import Path

import pytest

from fedcast.cli.app import run
from fedcast.registry import find
from fedcast.scenario import load_scenario
from fedcast.testing import partitions
from fedcast.testing.algorithms import ALGORITHM_CHECKS, check_algorithm
from fedcast.training import Algorithm

HOW_TO = Path(__file__).parent.parent / "docs" / "how-to"


def block(page, language, position=0):
    """Return a code block of a page in that language, by default the first."""
    return re.findall(rf"```{language}\n(.*?)```", (HOW_TO / page).read_text(encoding="utf-8"), re.DOTALL)[position]


@pytest.fixture
def folder(tmp_path, monkeypatch, registered):
    for page, name in (("plugins.md", "falling"), ("add-an-algorithm.md", "fedclip")):
        (tmp_path / f"{name}.py").write_text(block(page, "python"), encoding="utf-8")
        (tmp_path / f"{name}.toml").write_text(block(page, "toml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_partition_divides_every_sample(folder, capsys):
    assert run(["inspect", "falling.toml"]) == 0
    assert "100 users hold 1,437 samples" in " ".join(capsys.readouterr().out.split())
    scenario = load_scenario(folder / "falling.toml")
    counts = find("partition", "falling").value.counts([400, 800], 3, scenario.data.options("partition"), 0)
    assert counts.sum(axis=0).tolist() == [400, 800]
    assert (counts[:-1].sum(axis=1) > counts[1:].sum(axis=1)).all()


@pytest.mark.parametrize("check", partitions.CHECKS, ids=lambda check: check.__name__)
def test_the_partition_passes_its_kit(folder, check):
    load_scenario(folder / "falling.toml")
    partition = find("partition", "falling").value
    check(partition, partition.options())


@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_the_algorithm_passes_its_kit(folder, check):
    load_scenario(folder / "fedclip.toml")
    check("fedclip")


def test_the_algorithm_limits_the_change(folder):
    import torch

    scenario = load_scenario(folder / "fedclip.toml")
    options = scenario.training.options("algorithm")
    change, _ = find("algorithm", "fedclip").value.change(options, [torch.full((4,), 3.0)], {}, {})
    assert float(change[0].norm()) == pytest.approx(options.max_norm) == pytest.approx(0.5)


def test_the_number_of_the_round_reaches_the_users():
    import torch

    shown = {"Algorithm": Algorithm}
    exec(block("add-an-algorithm.md", "python", 1), shown)
    check_algorithm(shown["WEAKENING"])
    server = shown["WEAKENING"].change(None, [], {}, {"round": [torch.ones(())]})[1]
    context = shown["WEAKENING"].local_context(None, server, {})
    ((factor, terms),) = shown["WEAKENING"].local_terms(None, [torch.ones(3, 2)], [torch.zeros(2)], context)
    assert factor * terms[0].tolist()[0][0] == 0.5
