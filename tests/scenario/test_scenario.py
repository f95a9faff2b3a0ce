import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.errors import ScenarioError
from fedcast.scenario import PRESETS, Scenario, load_scenario, preset, to_toml, with_overrides
from fedcast.scenario.describe import accepted, field_at, is_section, values_of


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("comments", [True, False])
def test_toml_out_and_in_is_the_same(name, comments, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(to_toml(preset(name), comments=comments))
    assert load_scenario(path) == preset(name)


def test_paper_preset_is_table_one():
    paper = preset("paper")
    assert paper.devices.energy_coefficient == 4e-26
    assert paper.devices.energy_budget_j == 0.005
    assert paper.devices.max_frequency_hz == 1.2e9
    assert paper.devices.cycles_per_sample == 2.5e5
    assert paper.sidelink.model == "los_only"
    assert (paper.sidelink.tx_gain_db, paper.sidelink.rx_gain_db) == (0, 0)
    assert paper.allocation.max_sharing_ratio == 1
    assert (preset().devices.energy_coefficient, preset().devices.energy_budget_j) == (1e-28, 0.05)


def test_every_parameter_is_written_with_its_meaning():
    text = to_toml(Scenario())
    for name, field in Scenario.model_fields.items():
        fields = values_of(field.annotation) if is_section(field) else {name: field}
        for key, inner in fields.items():
            line = next(line for line in text.splitlines() if line.removeprefix("# ").startswith(f"{key} ="))
            assert inner.description, key
            assert inner.description in line or any(inner.description in other for other in text.splitlines()), key


def test_what_is_left_out_comes_from_the_preset(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[devices]\npower_w = 0.02\n")
    scenario = load_scenario(path, base="paper")
    assert scenario.devices.power_w == 0.02
    assert scenario.devices.energy_budget_j == 0.005


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("data.num_users=50", ("data", "num_users"), 50),
        ("data.dataset=mnist", ("data", "dataset"), "mnist"),
        ('data.dataset="mnist"', ("data", "dataset"), "mnist"),
        ("seed=3", ("seed",), 3),
        ("trust.inside_beta=[3, 4]", ("trust", "inside_beta"), (3.0, 4.0)),
        ("cellular.snr_db=15", ("cellular", "snr_db"), 15.0),
        ("clustering.random.respect_graph=false", ("clustering", "tables", "random"), {"respect_graph": False}),
    ],
)
def test_overrides(override, path, value):
    found = load_scenario(overrides=[override])
    for key in path:
        found = found[key] if isinstance(found, dict) else getattr(found, key)
    assert found == value


def test_an_override_can_unset(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[cellular]\nsnr_db = 15\n")
    assert load_scenario(path, overrides=["cellular.snr_db=unset"]).cellular.snr_db is None


@pytest.mark.parametrize(
    ("base", "key"),
    [("digits", "data.bits_per_sample"), ("default", "training.clip_norm"), ("default", "data.file.path")],
)
@pytest.mark.parametrize("comments", [True, False])
def test_unset_values_are_written_and_read_where_the_default_is_a_value(base, key, comments, tmp_path):
    path, scenario = tmp_path / "s.toml", load_scenario(base=base, overrides=[f"{key}=unset"])
    path.write_text(to_toml(scenario, preset=base, comments=comments))
    assert load_scenario(path) == scenario
    assert ('= "unset"' in path.read_text()) == (base == "digits")
    path.write_text(f'preset = "{base}"\n{key} = "unset"\n')
    assert load_scenario(path) == scenario


def test_only_what_may_be_unset_reads_unset_as_none(tmp_path):
    (tmp_path / "s.toml").write_text('[data]\nnum_users = "unset"\n')
    with pytest.raises(ScenarioError, match=r"s.toml: line 2: data.num_users: invalid value 'unset': expected a whole"):
        load_scenario(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text('[trust]\nlinks_file = "unset"\n')
    assert load_scenario(tmp_path / "s.toml").trust.links_file is None


def test_an_error_names_the_file_or_the_override_that_set_the_value(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[training]\nrounds = 3\n")
    for overrides, start in (
        (["training.x.y=1"], "--set training.x: "),
        ({"training.x.y": 1}, "override training.x: "),
    ):
        with pytest.raises(ScenarioError, match=f"^{start}unknown key"):
            load_scenario(path, overrides=overrides)
    path.write_text("seed = 1\nplugins = ['mine.py']\n")
    with pytest.raises(ScenarioError, match=r"s.toml: line 2: plugins: .*mine.py: No such file"):
        load_scenario(path)


def test_paths_in_a_file_start_at_its_folder_and_those_of_overrides_at_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "mine.json").touch()
    lines = ['data.file = "./a.npz"', 'trust.links_file = "/far/l.csv"', 'rounds.fit = "mine.json"']
    (tmp_path / "w" / "s.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    found = load_scenario("w/s.toml", overrides=["devices.devices_file=d.csv"])
    assert found.data.file == "w/a.npz"
    assert found.trust.links_file == "/far/l.csv"
    assert found.rounds.fit == "w/mine.json"
    assert found.devices.devices_file == "d.csv"
    monkeypatch.chdir(tmp_path / "w")
    assert load_scenario("s.toml").data.file == "./a.npz"
    assert load_scenario(tmp_path / "w" / "s.toml", folder="").rounds.fit == "mine.json"


@pytest.mark.parametrize("fit", ["paper-0.95", "digits-0.85"])
def test_a_shipped_fit_is_no_path(fit, tmp_path):
    (tmp_path / "s.toml").write_text(f'[rounds]\nfit = "{fit}"\n')
    assert load_scenario(tmp_path / "s.toml").rounds.fit == fit


def faults_of(text="", overrides=(), tmp_path=None):
    path = None
    if text:
        path = tmp_path / "s.toml"
        path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, overrides=overrides)
    return str(caught.value).splitlines()


def test_all_faults_in_one_go_with_line_value_and_way_out(tmp_path):
    text = """sed = 3
[data]
num_users = "many"
single_class_share = 1.5
value_max = -3.0
[sidelink]
power_mw = 10
carrier_hz = "28 GHz"
model = "fourstate"
tx_gain_db = nan
[cellular]
fading = "rayleigh"
[allocation]
surrogate_exponent = 0.95
max_asr = 2.0
[sidlink]
a = 1
"""
    faults = faults_of(text, ["devices.power_w=-1", "nonsense"], tmp_path)
    expected = [
        ("line 1", "sed", "did you mean seed?"),
        ("line 3", "data.num_users", "'many'", "a whole number, >= 1"),
        ("line 4", "data.label_skew.single_class_share", "1.5", ">= 0, <= 1"),
        ("line 5", "data.value_max", "-3.0", "above value_min = -1.0"),
        ("line 7", "sidelink.power_mw", "did you mean power_w?"),
        ("line 8", "sidelink.carrier_hz", "'28 GHz'", "a number in Hz", "write 2.8e10"),
        ("line 9", "sidelink.model", "'fourstate'", "four_state, los_only"),
        ("line 10", "sidelink.tx_gain_db", "nan", "a number in dB"),
        ("line 12", "cellular.fading", "infinite under Rayleigh", "use ergodic"),
        ("allocation.jfvo:", "above surrogate_exponent = 0.95"),
        ("allocation.jfvo_literal:", "above surrogate_exponent = 0.95"),
        ("line 15", "allocation.max_asr", "2.0", "<= 1"),
        ("line 16", "sidlink", "did you mean sidelink?"),
        ("devices.power_w", "-1", "a number in W, > 0"),
        ("--set nonsense", "section.key=value"),
    ]
    for parts in expected:
        assert any(all(part in fault for part in parts) for fault in faults), parts
    assert [fault.split(": ")[0] for fault in faults if "s.toml" not in fault] == [
        "--set nonsense",
        "--set devices.power_w",
    ]
    assert len(faults) == len(expected)


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("min_rate_bps=3", ["did you mean sidelink.min_rate_bps?"]),
        ("data.energy_budget_j=3", ["did you mean devices.energy_budget_j?"]),
        ("data.qqqq=3", ["unknown key", "num_users"]),
        ("data=3", ["expected a table [data]", "3"]),
        ("devices.power_w=10 mW", ["'10 mW'", "write 0.01"]),
        ("data.num_users=2.5", ["2.5", "a whole number"]),
        ("data.num_users=true", ["--set data.num_users: invalid value true", "a whole number"]),
        ("clustering.random.respect_graph=1", ["true or false"]),
        ("trust.inside_beta=[1.0]", ["2 numbers [a, b]"]),
        ("trust.inside_beta=[1.0, -2.0]", ["-2.0", "> 0"]),
        ("seed.x=3", ["seed", "a whole number"]),
        ("cellular.nakagami_shape=1", ["1", "> 1"]),
        ("data.dirichlet.alpha=inf", ["inf", "a number, > 0"]),
    ],
)
def test_each_kind_of_fault(override, parts):
    (fault,) = faults_of(overrides=[override])
    for part in parts:
        assert part in fault


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"a = = 3", "not valid TOML"), (b"\xff\xfe", "not UTF-8"), (b"seed = 1\nseed = 2", "not valid TOML")],
)
def test_unreadable_files(content, part, tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=part):
        load_scenario(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ScenarioError, match="no such file; `fedcast init"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="is a folder"):
        load_scenario(tmp_path)


def test_unknown_preset():
    with pytest.raises(ScenarioError, match="did you mean paper"):
        preset("papr")


def test_a_file_names_the_preset_of_what_it_leaves_out(tmp_path):
    path = tmp_path / "s.toml"
    kept = [line for line in to_toml(preset("digits"), preset="digits").splitlines() if not line.startswith("fit")]
    path.write_text("\n".join(kept))
    assert load_scenario(path) == preset("digits")
    assert load_scenario(path, base="digits") == preset("digits")
    with pytest.raises(
        ScenarioError, match=r"it names preset 'digits', but 'paper' is asked for; change it in the file"
    ):
        load_scenario(path, base="paper")
    path.write_text("[data]\nnum_users = 7\n")
    assert load_scenario(path) == load_scenario(base="default", overrides=["data.num_users=7"])
    path.write_text('preset = "digts"')
    with pytest.raises(ScenarioError, match=r"unknown preset 'digts'; did you mean digits\? There are default"):
        load_scenario(path)
    path.write_text("preset = 3")
    with pytest.raises(ScenarioError, match="preset: invalid value 3: expected one of default, paper, digits, mnist"):
        load_scenario(path)


def test_overrides_as_values_or_one_string():
    values = {"training.rounds": 3, "data.bits_per_sample": None, "seed": 5}
    strings = ["training.rounds=3", "data.bits_per_sample=unset", "seed=5"]
    assert load_scenario(base="digits", overrides=values) == load_scenario(base="digits", overrides=strings)
    assert load_scenario(overrides="training.rounds=3").training.rounds == 3
    with pytest.raises(ScenarioError, match="training.round: unknown key; did you mean rounds?"):
        load_scenario(overrides={"training.round": 3})


def test_changes_to_what_is_not_there_are_refused():
    with pytest.raises(ScenarioError, match="trainning: unknown key; did you mean training?"):
        with_overrides(Scenario(), {"trainning.rounds": 3})
    with pytest.raises(ScenarioError, match="seed: "):
        with_overrides(Scenario(), {"seed.x": 3})


def test_numbers_beyond_reason_are_refused():
    with pytest.raises(
        ScenarioError, match=r"devices.energy_coefficient: invalid value 1e\+300: .* 1e-60 to 1e\+15; units"
    ):
        load_scenario(overrides=["devices.energy_coefficient=1e300"])
    with pytest.raises(ScenarioError, match=r"cellular.snr_db: .* 1e-60 to 1000; units are SI"):
        load_scenario(overrides=["cellular.snr_db=-4000.0"])


def test_a_scenario_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Scenario().seed = 3


numeric_fields = [
    (section, key)
    for section, field in Scenario.model_fields.items()
    if is_section(field)
    for key, inner in values_of(field.annotation).items()
    if accepted(key, inner).startswith(("a number", "a whole number"))
]


@given(st.sampled_from(numeric_fields), st.sampled_from(['"text"', "nan", "inf", "[]", "-1e300", "true", "{}"]))
def test_no_numeric_field_takes_nonsense(path, value):
    section, key = path
    field = field_at(path)
    if value == "-1e300" and ">" not in accepted(key, field):
        return
    with pytest.raises(ScenarioError, match=f"{section}.{key}"):
        load_scenario(overrides=[f"{section}.{key}={value}"])


def test_uncommented_toml_holds_every_set_value():
    tree = tomllib.loads(to_toml(preset("paper"), comments=False))
    assert tree["sidelink"]["model"] == "los_only"
    assert "snr_db" not in tree["cellular"]
