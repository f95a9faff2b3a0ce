"""Values in notebooks, and paths instead of scenarios and runs."""

import pytest

import fedcast
from fedcast.errors import FedcastError
from tests.runs.test_compare import stored


def test_values_are_shown_in_a_line_and_as_a_table(tmp_path):
    scenario = fedcast.load_scenario(base="digits", overrides={"data.num_users": 9, "clustering.rule": "daca"})
    said = (
        "Scenario(dataset: digits (label_skew), users: 9, rule: daca, method: jfvo, "
        "training: fedavg, small_cnn, 60 rounds, target: 85 %, seed: 0)"
    )
    assert (repr(scenario), str(scenario)) == (said, said)
    table = scenario._repr_html_()
    assert "<tr><th>training.learning_rate</th><td>0.4</td></tr>" in table
    assert "training.batch_size" not in table
    world = fedcast.make_world(scenario)
    assert repr(world).startswith(
        f"World(dataset: digits, users: 9, samples: {world.population.sizes.sum():,}, classes: 10"
    )
    plan = fedcast.make_plan(scenario, world=world, with_curve=False)
    assert repr(plan).startswith("SharingPlan(rule: daca, heads: ")
    assert "speed-up" in plan._repr_html_()


def test_text_of_files_is_escaped():
    scenario = fedcast.load_scenario(overrides={"data.file.path": "<script>.npz"})
    assert "<script>" not in scenario._repr_html_()
    assert "&lt;script&gt;" in scenario._repr_html_()


def test_a_comparison_is_a_list_and_a_table():
    runs = [stored("none", 0, [0.1, 0.2]), stored("daca", 0, [0.1, 0.6]), stored("daca", 1, [0.1, 0.6])]
    found = fedcast.compare(runs)
    assert repr(found) == "Comparison(FedAvg, daca; 2 seeds)"
    assert [row.strategy.name for row in found] == found.to_pandas().index.tolist() == ["FedAvg", "daca"]
    assert "<td>&gt; 1</td>" in found._repr_html_()


def test_paths_and_presets_instead_of_scenarios(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text('preset = "digits"\n[data]\nnum_users = 7\n')
    assert fedcast.make_world(path).population.num_users == 7
    assert len(fedcast.grid(str(path), ["none"], seeds=[0, 1])) == 2
    assert fedcast.make_world("digits").scenario == fedcast.preset("digits")


@pytest.mark.parametrize("call", [fedcast.make_plan, fedcast.make_world, fedcast.train_scenario])
def test_what_is_no_scenario_is_said(call):
    with pytest.raises(FedcastError, match="scenario: expected a Scenario, the path of a scenario file"):
        call(3)
    with pytest.raises(FedcastError, match="digit: no such file; did you mean the preset digits"):
        call("digit")


@pytest.mark.parametrize("call", [fedcast.compare, fedcast.facets, fedcast.gains])
def test_what_is_no_run_is_said(call, tmp_path):
    with pytest.raises(FedcastError, match="runs: expected runs, or paths of run folders or of folders of them, got 3"):
        call([3])
    with pytest.raises(FedcastError, match="no finished run in this folder"):
        call(tmp_path)
