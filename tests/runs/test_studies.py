"""Studies: facets, tuning on other seeds, and studies in a file."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedcast import facets, grid, load_scenario, load_study, sweep_study, with_overrides
from fedcast.errors import FedcastError
from fedcast.runs import Study, prepare_run, run_folder, store_run
from fedcast.runs.studies import facets_table, trials_table
from fedcast.training import History, Record
from tests.runs.test_compare import stored

BASE = load_scenario(
    base="digits",
    overrides=["data.num_users=4", "training.model=mlp", "training.local_epochs=1", "training.rounds=3",
               "data.partition=dirichlet", "rounds.target_accuracy=0.5"],
)  # fmt: skip


@pytest.fixture
def made_up(monkeypatch):
    """Runs whose accuracy after one, two and three rounds is a function of the scenario."""
    done = []
    made = prepare_run(with_overrides(BASE, {"clustering.rule": "none"}))

    def use(course):
        def run_scenario(scenario, store, **_):
            done.append(scenario)
            start = Record(0, None, 2.3, 0.1, 0.1, 0.1, None, 4, 0.0, 0.0, 0.0)
            records = [
                replace(start, round=number, accuracy=value, seconds=number * made.clock.round_s)
                for number, value in enumerate(course(scenario), 1)
            ]
            prepared = replace(made, world=replace(made.world, scenario=scenario))
            return store_run(run_folder(Path(store), scenario), prepared, History([start, *records]), {})

        monkeypatch.setattr("fedcast.runs.executors.run_scenario", run_scenario)
        return done

    return use


def by_rate(scenario):
    """FedAvg is best at 0.1, DACA at 0.4; on the seeds that are reported it is the other way round."""
    wanted = 0.1 if scenario.clustering.rule == "none" else 0.4
    if scenario.seed < 3:
        wanted = 0.5 - wanted
    if scenario.training.learning_rate == 3.0:
        raise FedcastError("training diverged")
    return [0.6, 0.7, 0.8] if scenario.training.learning_rate == wanted else [0.2, 0.3, 0.6]


VARY = {"training.learning_rate": [0.1, 0.4, 3.0], "data.alpha": [0.1, 1.0]}


def test_settings_are_chosen_on_seeds_that_are_not_reported(made_up, tmp_path):
    done, purposes = made_up(by_rate), []
    study = Study(BASE, ["none", "daca"], seeds=3, tune_on=2, vary=VARY)
    assert study.tuned == ["training.learning_rate"]
    result = sweep_study(study, tmp_path, begin=lambda scenarios, purpose: purposes.append((purpose, len(scenarios))))
    # 2 rules × 2 alphas × 3 rates × 2 seeds; then 2 × 2 × 3 seeds with the best rate.
    assert purposes == [("tuning", 24), ("comparison", 12)]
    assert study.reported == 12
    assert {one.seed for one in done[:24]} == {3, 4}
    assert {one.seed for one in done[24:]} == {0, 1, 2}
    assert [facet.values for facet in result.facets] == [{"data.dirichlet.alpha": 0.1}, {"data.dirichlet.alpha": 1.0}]
    table = facets_table(result.facets, result.tuned)
    assert table["strategy"] == ["FedAvg", "daca"] * 2
    assert table["training.learning_rate"] == [0.1, 0.4] * 2
    assert table["seeds"] == [3] * 4
    # What is reported is not what was best on the seeds for tuning.
    assert table["rounds"] == [3.0] * 4
    assert len(result.failed) == 8
    assert {one.scenario.training.learning_rate for one in result.failed} == {3.0}
    tried = trials_table(result.trials)
    assert len(tried["strategy"]) == 12
    assert [tried["training.learning_rate"][place] for place, best in enumerate(tried["chosen"]) if best] == [
        0.1,
        0.4,
    ] * 2


def test_a_control_has_the_settings_of_its_strategy(made_up, tmp_path):
    done = made_up(by_rate)
    vary = {"training.learning_rate": [0.1, 0.4]}
    sweep_study(Study(BASE, ["none", "daca"], controls=["work"], seeds=1, tune_on=1, vary=vary), tmp_path)
    last = {(one.sharing.kind, one.clustering.rule): one.training.learning_rate for one in done if not one.seed}
    assert last == {("raw", "none"): 0.4, ("raw", "daca"): 0.1, ("work_control", "daca"): 0.1}


def test_an_option_of_a_rule_is_tuned_for_that_rule_alone(made_up, tmp_path):
    def course(scenario):
        weight = scenario.clustering.options("clustering", "blend").shift_weight
        return [0.6] if scenario.clustering.rule == "blend" and weight == 2.0 else [0.1, 0.2, 0.6]

    done = made_up(course)
    vary = {"clustering.blend.shift_weight": [0.5, 2.0]}
    result = sweep_study(Study(BASE, ["none", "blend"], seeds=1, tune_on=1, vary=vary), tmp_path)
    assert len(done) == 3 + 2
    assert Study(BASE, ["none", "blend"], seeds=1, tune_on=1, vary=vary).reported == 2
    assert facets_table(result.facets, result.tuned)["clustering.blend.shift_weight"] == [None, 2.0]


def test_without_tuning_every_combination_is_a_facet():
    changes = [{"training.learning_rate": rate, "data.alpha": alpha} for alpha in (1.0, 0.1) for rate in (0.4, 0.05)]
    runs = [
        replace_folder(stored(rule, 0, [0.1, 0.6], scenario=with_overrides(BASE, change)), place)
        for place, (change, rule) in enumerate((change, rule) for change in changes for rule in ("none", "daca"))
    ]
    found = facets(runs)
    assert [facet.name for facet in found] == [
        f"data.dirichlet.alpha = {alpha}, training.learning_rate = {rate}"
        for alpha in ("0.1", "1")
        for rate in ("0.05", "0.4")
    ]
    assert all([run.rule for run in facet.runs] == ["none", "daca"] for facet in found)


def replace_folder(run, place):
    run.folder = Path(f"run-{place}")
    return run


def test_a_run_that_an_option_does_not_decide_is_in_all_its_facets():
    weights = [with_overrides(BASE, {"clustering.blend.shift_weight": weight}) for weight in (0.5, 2.0)]
    fedavg = stored("none", 0, [0.1, 0.6], scenario=weights[0])
    blends = [stored("blend", 0, [0.1, 0.6], scenario=one) for one in weights]
    found = facets([fedavg, *blends])
    assert [facet.runs for facet in found] == [[fedavg, blends[0]], [fedavg, blends[1]]]
    # No run has options of both rules: every combination has its FedAvg, blend and random.
    other = [
        stored("random", 0, [0.1], scenario=with_overrides(BASE, {"clustering.random.num_clusters": n})) for n in (2, 3)
    ]
    assert [len(facet.runs) for facet in facets([fedavg, *blends, *other])] == [3, 3, 3, 3]


STUDY = """
preset = "digits"
[training]
local_epochs = 1
[study]
rules = ["none", "daca"]
seeds = 3
tune_on = 2
[study.vary]
training.learning_rate = [0.1, 0.4]
"clustering.daca.order" = ["gain", "emd"]
"""


def test_a_study_in_a_file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    study = load_study(path, overrides=["data.num_users=7"], seeds=1)
    assert (study.rules, study.seeds, study.tune_on) == (["none", "daca"], 1, 2)
    assert study.vary == {"training.learning_rate": [0.1, 0.4], "clustering.daca.order": ["gain", "emd"]}
    assert study.scenario.data.num_users == 7
    # The same file is a scenario.
    assert load_scenario(path).training.local_epochs == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 3", "seeds = 0"), "study.seeds: invalid value 0: expected a whole number >= 1"),
        (("seeds = 3", "seed = 3"), "study.seed: unknown key; did you mean seeds"),
        (('rules = ["none", "daca"]', 'rules = "daca"'), "study.rules: invalid value 'daca': expected a list of names"),
        (
            ('rules = ["none", "daca"]', "rules = []"),
            r"study.rules: invalid value \[\]: expected a list of names, at least one",
        ),
        (("[0.1, 0.4]", "0.1"), "study.vary: invalid value"),
        (("seeds = 3", "seeds = nan"), "study.seeds: invalid value nan: expected a whole number >= 1"),
        (("[study]", "study = 3\n[other]"), "study: expected a table"),
    ],
)
def test_faults_of_a_study_file(tmp_path, change, message):
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace(*change) if "other" not in change[1] else "study = 3\n")
    with pytest.raises(FedcastError, match=message):
        load_study(path)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"clustering.rule": ["daca"]}, "vary: clustering.rule makes a strategy or a seed; use rules"),
        ({"training.learning_rate": 0.1}, r"expected a list such as \[0.05, 0.1\], got 0.1"),
        ({"training.learning_rate": []}, "expected at least one value"),
        ({"training.learning_rate": [-1.0]}, "training.learning_rate: invalid value -1.0: expected a number"),
        ({"training.learning_rat": [1.0]}, "training.learning_rat: unknown key"),
        ({"data.noise.level": [1.0]}, "vary: data.noise.level changes nothing"),
        (
            {"data.alpha": [0.1], "data.dirichlet.alpha": [1.0]},
            "vary: data.alpha and data.dirichlet.alpha are the same parameter",
        ),
    ],
)
def test_what_cannot_vary(vary, message):
    with pytest.raises(FedcastError, match=message):
        grid(BASE, ["none"], vary=vary)


def test_tuning_needs_a_setting():
    with pytest.raises(FedcastError, match="tune_on: there is nothing to tune; vary a parameter of training"):
        Study(BASE, tune_on=2, vary={"data.alpha": [0.1]})


def test_a_preset_may_have_a_study(tmp_path):
    study = load_study(base="niid-mnist")
    tuning, reported = study.scenarios(tuning=True), study.scenarios()
    # Seven partitions; FedProx with four weights, three other algorithms.
    assert (len(tuning), len(reported)) == (7 * 7, 7 * 7 * 3)
    partitions = {(one.data.partition, one.data.options("partition")) for one in reported}
    assert sorted(name for name, _ in partitions) == ["dirichlet", "iid", "noise", "quantity", *["shards"] * 3]
    settings = {key: value for key, value in vars(reported[0].training).items() if key != "tables"}
    expected = {
        "model": "lenet5", "rounds": 50, "local_epochs": 10, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.9,
        "weight_decay": 1e-5, "augmentation": "none",
    }  # fmt: skip
    assert settings | expected == settings
    assert load_scenario(base="niid-cifar10").training.augmentation == "crop_flip"
    # What a command or a file says wins; a file that names the preset has its study.
    narrow = load_study(base="niid-mnist", seeds=1, vary={"data.partition": ["iid", "noise"]})
    assert set(narrow.vary) == {"training.fedprox.prox_weight", "data.partition"}
    assert (narrow.tune_on, len(narrow.scenarios())) == (1, 2 * 7)
    one = load_study(base="niid-mnist", seeds=1, algorithms=["fedavg"], vary={"data.partition": ["shards"]})
    assert (one.tune_on, len(one.scenarios())) == (0, 3)
    path = tmp_path / "study.toml"
    path.write_text('preset = "niid-mnist"\n[study]\nseeds = 2\n')
    assert len(load_study(path).scenarios()) == 7 * 7 * 2
    path.write_text("[study]\nseeds = 2\n")
    assert len(load_study(path, base="niid-mnist").scenarios()) == 7 * 7 * 2
