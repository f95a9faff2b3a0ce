"""Option tables of choices, built in and of plug-in files, as a careless user writes them."""

import tomllib
from itertools import count

import pytest

from fedcast import registry
from fedcast.errors import FedcastError, ScenarioError
from fedcast.scenario import Scenario, load_plugins, load_scenario, preset, read_stored_scenario, to_toml

HEADER = """
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Literal
from fedcast.registry import option, register

@dataclass(frozen=True)
class Options:
"""
numbers = count()


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_loaded_files", {})


@pytest.fixture
def plugin(tmp_path):
    """Write a plug-in with these options, and a scenario that chooses it with this table."""

    def write(options, table=""):
        # The number makes the content, and so the module, new for each test.
        body = f"{HEADER}    {options}\n\nNUMBER = {next(numbers)}\n"
        body += 'register("clustering", "mine", SimpleNamespace(summary="does nothing", options=Options))\n'
        (tmp_path / "mine.py").write_text(body)
        path = tmp_path / "s.toml"
        path.write_text(f'plugins = ["mine.py"]\n[clustering]\nrule = "mine"\n[clustering.mine]\n{table}\n')
        return path

    return write


def faults(path=None, overrides=()):
    with pytest.raises(FedcastError) as caught:
        load_scenario(path, overrides=overrides)
    return str(caught.value).splitlines()


def written(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clustering.blend=3", "clustering.blend: expected a table [clustering.blend], got 3"),
        ("clustering.blend=text", "expected a table [clustering.blend], got 'text'"),
        ("clustering.blend=unset", "expected a table [clustering.blend], got 'unset'"),
        ("clustering.blend.shift_weight={a=1}", "clustering.blend.shift_weight: invalid value {'a': 1}"),
        ("clustering.blend.shift_wieght=1.0", "unknown key; did you mean shift_weight?"),
        ("clustering.blend.deep.x=1", "clustering.blend.deep: unknown key; [clustering.blend] has shift_weight"),
        ("clustering.blnd.shift_weight=1.0", "clustering.blnd: unknown key; did you mean blend?"),
        ("clustering.exact.time_limit_s=-1", "clustering.exact.time_limit_s: invalid value -1: expected a number in s"),
        ("training.small_cnn.x=1", "unknown key; [training.small_cnn] has no keys"),
        ("clustering.tables=3", "clustering.tables: unknown key"),
        ("clustering.tables.blend.shift_weight=1.0", "clustering.tables: unknown key"),
        ("tables.x=1", "tables: unknown key; a scenario has seed"),
        ("clustering.shift_weight.x=1", "unknown key; did you mean clustering.blend.shift_weight?"),
        ("clustering.shift_wieght=1.0", "unknown key; did you mean clustering.blend.shift_weight?"),
        ("clustering.blend.=3", "--set clustering.blend.=3: expected section.key=value"),
        ("plugins=[1]", "plugins: invalid value 1: expected a list of texts"),
        ("plugins=mine.py", "plugins: invalid value 'mine.py': expected a list of texts"),
    ],
)
def test_a_wrong_table_is_one_clear_error(override, message):
    (fault,) = faults(overrides=[override])
    assert message in fault


def test_every_error_is_reported_at_once_with_its_line(tmp_path):
    text = """[data]
num_users = "x"
[clustering]
rule = "dacca"
blend = {shift_weight = -1.0}
['clustering'."exact"]
"time_limit_s" = 0
[clustering.fooo]
a = 1
[allocation]
method = "bar"
"""
    found = faults(written(tmp_path, text), ["allocation.method=baz", "data.dirichlet.alpha=0"])
    starts = [
        "line 2: data.num_users",
        "line 5: clustering.blend.shift_weight",
        "line 7: clustering.exact.time_limit_s",
    ]
    starts += ["line 4: clustering.rule", "line 8: clustering.fooo"]
    starts += ["--set allocation.method", "--set data.dirichlet.alpha"]
    shown = [fault.removeprefix(f"{tmp_path / 's.toml'}: ") for fault in found]
    assert sorted(start for start in starts for fault in shown if fault.startswith(start + ":")) == sorted(starts)
    assert len(shown) == len(starts)


def test_an_unset_option_stays_unset_in_a_written_scenario(plugin, tmp_path):
    scenario = load_scenario(
        plugin("a: float | None = option(10.0, 'half-life')"), overrides=["clustering.mine.a=unset"]
    )
    path = written(tmp_path, to_toml(scenario))
    assert 'a = "unset"' in path.read_text()
    assert load_scenario(path, folder="") == scenario
    registry._registered.clear()
    stored = read_stored_scenario(path)
    assert to_toml(stored) == to_toml(read_stored_scenario(written(tmp_path, to_toml(stored))))
    registry._loaded_files.clear()
    load_plugins(stored)
    assert stored.clustering.options("clustering").a is None


def test_a_plug_in_that_fails_does_not_make_its_names_unknown(tmp_path):
    text = 'plugins = ["no.py"]\n[clustering]\nrule = "mine"\n[clustering.mine]\na = 1\n'
    (fault,) = faults(written(tmp_path, text))
    assert "no.py: No such file or directory; expected a Python file" in fault


@pytest.mark.parametrize(
    ("options", "table", "value"),
    [
        ("a: float = option(1.0, 'x', gt=0)", "a = 2", 2.0),
        ("a: Literal['x', 'y'] = option('x', 'x')", "a = 'y'", "y"),
        ("a: str | None = option(None, 'x')", "a = 'y'", "y"),
        ("a: tuple[int, ...] = option((1, 2), 'x')", "a = [3]", (3,)),
        ("a: tuple[float, float] = option((1.0, 2.0), 'x')", "a = [3, 4.5]", (3.0, 4.5)),
        ("a: float | None = option(None, 'x', ge=0)", "a = 0.5", 0.5),
        ("a: int = 1", "", 1),
    ],
)
def test_options_of_a_plug_in_reach_it_and_survive_a_file(plugin, tmp_path, options, table, value):
    scenario = load_scenario(plugin(options, table))
    assert scenario.clustering.options("clustering").a == value
    again = written(tmp_path, to_toml(scenario, all_tables=True))
    assert load_scenario(again) == scenario
    assert "[clustering.mine]  # does nothing" in again.read_text()
    assert scenario == Scenario.model_validate_json(scenario.model_dump_json())


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        ("a: int = 1", "a = true", "line 5: clustering.mine.a: invalid value true: expected a whole number"),
        ("a: int = 1", "a = 1.0", "invalid value 1.0: expected a whole number"),
        ("a: bool = True", "a = 1", "invalid value 1: expected true or false"),
        ("a: float = option(0.5, 'x', lt=1)", "a = 1", "expected a number, < 1"),
        ("a: Literal['x', 'y'] = 'x'", "a = 'z'", "expected one of x, y"),
        ("a: str | None = None", "a = 3", "invalid value 3: expected a text"),
        ("a: tuple[int, ...] = (1, 2)", "a = ['x']", "invalid value 'x': expected a list of whole numbers"),
        ("a: tuple[int, ...] = (1, 2)", "a = [true]", "expected a list of whole numbers"),
        ("a: tuple[float, float] = (1.0, 2.0)", "a = [1]", "expected 2 numbers [a, b]"),
        ("a: int = 1\n    def __post_init__(self): assert self.a < 3, 'too large'", "a = 3", "mine: too large"),
        ("a: int = 1\n    def __post_init__(self): 1 // (self.a - 3)", "a = 3", "mine: integer division"),
        ("a: float", "", "plug-in 'mine': option a has no default"),
        ("a: tuple = field(default_factory=tuple)", "", "option a has no default"),
        ("a: list = option([], 'x')", "", "mutable default"),
        ("a: dict = option(None, 'x')", "", "option a has type dict; expected bool, int, float, str"),
        ("a: float | str = 1.0", "", "option a has type float | str; expected"),
        ("a: 'Nowhere' = 1", "", "its options have a type that cannot be read: name 'Nowhere' is not defined"),
        ("a: str = option('x', 'x', ge=0)", "", "option a has limits, which only a number can have"),
        ("a: tuple[int, ...] = option((1,), 'x', ge=0)", "", "option a has limits, which only a number can have"),
        ("a: int = 1\n    def __post_init__(self): raise RuntimeError('no')", "", "are invalid: RuntimeError: no"),
        ("a: float = option(5.0, 'x', lt=1)", "", "option table Options: invalid default of a"),
        ("schema: int = 1", "", "schema is a reserved name; choose another"),
        ("_a: int = 1", "", "_a is a reserved name; choose another"),
    ],
)
def test_what_is_wrong_with_options_of_a_plug_in_is_said(plugin, options, table, message):
    found = faults(plugin(options, table))
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize(
    ("kind", "name"), [("model", "auto"), ("clustering", "rule"), ("algorithm", "model"), ("partition", "dataset")]
)
def test_names_that_a_section_uses_itself_are_reserved(kind, name):
    with pytest.raises(FedcastError, match=f"plug-in '{name}': a reserved name in"):
        registry.register(kind, name, registry.Choice(kind, name, None, ""))


def test_every_built_in_choice_could_be_a_plug_in():
    for kind in registry.KINDS:
        for choice in registry.choices(kind):
            assert registry._problem_of(choice.options) is None, choice


def test_a_stored_scenario_of_a_plug_in_loads_without_it(plugin, tmp_path):
    scenario = load_scenario(plugin("a: int = 1", "a = 2"))
    stored = written(tmp_path, to_toml(scenario))
    registry._registered.clear()
    found = read_stored_scenario(stored)
    assert found.clustering.tables == {"mine": {"a": 2}}
    assert tomllib.loads(to_toml(found))["clustering"]["mine"] == {"a": 2}


def test_a_stored_table_of_another_version_of_a_plug_in_is_an_error(plugin, tmp_path):
    stored = written(tmp_path, to_toml(load_scenario(plugin("a: int = 1", "a = 2"))))
    registry._registered.clear()
    found = read_stored_scenario(stored)
    load_scenario(plugin("b: int = 1"))
    with pytest.raises(FedcastError, match=r"invalid table \[clustering.mine\] \{'a': 2\}: .*unexpected keyword"):
        found.clustering.options("clustering")


@pytest.mark.parametrize("name", ["default", "paper", "digits", "mnist"])
def test_a_file_with_every_table_is_its_preset(name, tmp_path):
    text = to_toml(preset(name), preset=name, all_tables=True)
    for kind, known in registry.KINDS.items():
        for choice in registry.choices(kind):
            assert (f"[{known.section}.{choice.name}]" in text) == bool(registry.option_fields(choice.options))
    assert load_scenario(written(tmp_path, text)) == preset(name)


def test_an_override_does_not_get_the_line_of_the_file(tmp_path):
    path = written(tmp_path, "[devices]\npower_w = 0.1\n")
    (fault,) = faults(path, ["devices.power_w=-1"])
    assert "line" not in fault
    with pytest.raises(ScenarioError, match="line 2: devices.power_w"):
        load_scenario(written(tmp_path, "[devices]\npower_w = -1\n"))
