"""Runs stored before options had tables keep their identity: all stored runs of the paper's results are found."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path

import pytest

from fedcast.errors import MovedKeyWarning
from fedcast.runs.store import former_name, run_folder, run_key, run_scenario
from fedcast.scenario import Scenario, deciding_values, load_scenario, with_overrides
from fedcast_paper.trained import FORMER_DEFAULTS

STORED = sorted((Path(__file__).parents[2] / "results" / "full" / "runs").glob("*.json"))
# Of the names, in order, that the first 451 runs were stored under.
FORMER_NAMES = "f430fb790a3e9b5735b214bceb8d9a170cfdcaf023dd0fb682ba03ff16d821b4"


def scenario_of(path: Path) -> Scenario:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MovedKeyWarning)
        usual = load_scenario(overrides=FORMER_DEFAULTS)
        return with_overrides(usual, json.loads(path.read_text(encoding="utf-8"))["changes"])


def test_all_stored_runs_are_found_under_their_names_and_had_the_names_of_before():
    scenarios = {path.stem: scenario_of(path) for path in STORED}
    assert {run_folder(Path("no store"), scenario).name for scenario in scenarios.values()} == set(scenarios)
    # Later runs name the commit that stored them.
    first = [path.stem for path in STORED if "commit" not in json.loads(path.read_text(encoding="utf-8"))["made_by"]]
    former = sorted(str(former_name(scenarios[name])) for name in first)
    assert len(former) == 451
    assert hashlib.sha256("\n".join(former).encode()).hexdigest() == FORMER_NAMES


def test_a_folder_under_the_former_name_is_used_and_nothing_is_trained_again(tmp_path):
    scenario = load_scenario(base="digits", overrides=["training.rounds=1", "training.model=mlp", "data.num_users=20"])
    scenario = with_overrides(scenario, {"allocation.method": "fixed"})
    folder = run_scenario(scenario, tmp_path)
    folder.rename(tmp_path / former_name(scenario))
    before = (tmp_path / former_name(scenario) / "done.json").stat().st_mtime_ns
    assert run_scenario(scenario, tmp_path) == tmp_path / former_name(scenario)
    assert (tmp_path / former_name(scenario) / "done.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"clustering.rule": "daca"}, {"clustering.rule": "daca", "clustering.blend.shift_weight": 2.0}, True),
        ({"clustering.rule": "blend"}, {"clustering.rule": "blend", "clustering.blend.shift_weight": 2.0}, False),
        ({"clustering.rule": "blend"}, {"clustering.rule": "blend", "clustering.blend.shift_weight": 1.0}, True),
        ({}, {"training.checkpoint_every": 3}, True),
        ({}, {"training.rounds": 3}, False),
        (
            {"training.algorithm": "fedprox"},
            {"training.algorithm": "fedprox", "training.fedprox.prox_weight": 1.0},
            False,
        ),
    ],
)
def test_a_key_depends_on_what_decides_the_run_and_on_nothing_else(one, other, same):
    assert (run_key(with_overrides(Scenario(), one)) == run_key(with_overrides(Scenario(), other))) is same


def test_scenarios_of_today_have_no_name_of_before(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text("")
    assert former_name(load_scenario(overrides={"plugins": [str(plugin)]})) is None


def test_the_content_of_a_plug_in_file_is_part_of_the_key_and_its_place_is_not(tmp_path):
    keys = []
    for folder, content in (("a", "x = 1"), ("b", "x = 1"), ("c", "x = 2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(content)
        keys.append(run_key(load_scenario(overrides={"plugins": [str(tmp_path / folder / "mine.py")]})))
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] != run_key(Scenario())


@pytest.mark.parametrize(
    ("partition", "later"),
    [
        ("dirichlet", "balanced=true"),
        ("shards", "holders=random"),
        ("natural", "join=true"),
        ("indices", "shared=true"),
    ],
)
def test_options_that_came_later_count_only_where_they_are_set(partition, later):
    def options(*more):
        scenario = load_scenario(base="digits", overrides=[f"data.partition={partition}", *more])
        return deciding_values(scenario)["data"]["partition options"]

    name = later.split("=")[0]
    assert name not in options()
    assert name in options(f"data.{partition}.{later}")
