"""The registry of choices: built in, registered by code, from an installed package, or from a file."""

import hashlib
import importlib.metadata
import logging
import os
import pickle
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.registry import NoOptions, find, find_in_section, load_file, names, option, register

FILE = """
from dataclasses import dataclass
from types import SimpleNamespace
from fedcast.registry import option, register

@dataclass(frozen=True)
class Options:
    weight: float = option(0.5, "how much it counts", ge=0, lt=1)

class Own:
    summary = "does nothing"
    options = Options

register("clustering", "own", Own())
"""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """An empty registry for each test, without the plug-ins of installed packages."""
    table: dict = {}
    monkeypatch.setattr(registry, "_registered", table)
    monkeypatch.setattr(registry, "_loaded_files", {})
    monkeypatch.setattr(registry, "entry_points", lambda **_: [])
    registry.load_packages.cache_clear()
    yield table
    registry.load_packages.cache_clear()
    for name in [name for name in sys.modules if name.startswith("fedcast_plugin_")]:
        del sys.modules[name]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def value(summary="does nothing", options=NoOptions):
    return SimpleNamespace(summary=summary, options=options)


def test_what_code_registers_is_found_after_the_built_in_choices():
    own = value("shares at random")
    register("clustering", "own", own)
    choice = find("clustering", "own")
    assert (choice.kind, choice.name, choice.value) == ("clustering", "own", own)
    assert (choice.summary, choice.options, choice.origin) == (
        "shares at random",
        NoOptions,
        "registered by Python code",
    )
    assert names("clustering") == [*registry.BUILT_IN["clustering"], "own"]
    assert "own" not in names("allocation")


def test_code_may_register_a_name_of_its_own_again():
    register("clustering", "own", value("first"))
    register("clustering", "own", value("second"))
    assert find("clustering", "own").summary == "second"
    assert names("clustering").count("own") == 1


@pytest.mark.parametrize(
    ("kind", "taken", "noun"),
    [
        ("clustering", "daca", "clustering rule"),
        ("algorithm", "fedavg", "algorithm"),
        ("algorithm", "mlp", "model"),
        ("model", "scaffold", "algorithm"),
        ("partition", "mnist", "dataset"),
        ("dataset", "iid", "partition"),
    ],
)
def test_names_of_built_in_choices_of_the_same_section_are_taken(kind, taken, noun):
    with pytest.raises(FedcastError, match=rf"plug-in '{taken}': {noun} '{taken}' exists already \(built in\)"):
        register(kind, taken, value())
    assert not registry._registered


def test_two_plug_ins_of_one_section_cannot_have_one_name():
    register("algorithm", "own", value())
    with pytest.raises(
        FedcastError, match=r"plug-in 'own': algorithm 'own' exists already \(registered by Python code\)"
    ):
        register("model", "own", value())
    register("clustering", "own", value())
    assert find_in_section("training", "own").kind == "algorithm"
    assert find_in_section("clustering", "own").kind == "clustering"


@pytest.mark.parametrize("name", ["Own", "1st", "my-rule", "my rule", "", "own.", "_own", "ünt", "own\n"])
def test_names_that_cannot_be_a_table_are_invalid(name):
    with pytest.raises(FedcastError, match="expected a name of lower-case letters, digits and underscores"):
        register("clustering", name, value())


def test_unknown_kinds_are_listed():
    with pytest.raises(FedcastError, match="invalid kind of plug-in 'rule': expected one of clustering, allocation"):
        register("rule", "own", value())
    with pytest.raises(FedcastError, match="invalid kind of plug-in 'rule'"):
        find("rule", "daca")


@dataclass
class Mutable:
    weight: float = 1.0


class Plain:
    pass


@pytest.mark.parametrize("options", [Mutable, Plain, None, {"weight": 1.0}, NoOptions()])
def test_options_must_be_a_frozen_dataclass(options):
    with pytest.raises(FedcastError, match="plug-in 'own': its options are .*; expected a frozen dataclass"):
        register("clustering", "own", value(options=options))
    assert not registry._registered


@pytest.mark.parametrize("lacking", ["summary", "options"])
def test_what_a_plug_in_lacks_is_named(lacking):
    own = value()
    delattr(own, lacking)
    with pytest.raises(FedcastError, match=f"plug-in 'own': a clustering rule has no {lacking}"):
        register("clustering", "own", own)


def test_an_option_has_default_description_and_limits():
    @dataclass(frozen=True)
    class Options:
        share: float = option(0.5, "how much", gt=0, le=1)
        count: int = option(3, "how many", ge=0, lt=9)
        name: str = option("x", "what")
        plain: int = field(default=1)

    fields = registry.option_fields(Options)
    assert list(fields) == ["share", "count", "name", "plain"]
    assert (Options().share, Options().count, Options().name) == (0.5, 3, "x")
    assert fields["share"].metadata == {"description": "how much", "limits": {"gt": 0, "le": 1}}
    assert fields["count"].metadata == {"description": "how many", "limits": {"ge": 0, "lt": 9}}
    assert fields["name"].metadata["limits"] == {}


def test_a_near_name_is_suggested_and_all_are_listed():
    register("clustering", "own_rule", value())
    with pytest.raises(FedcastError) as caught:
        find("clustering", "own_rle")
    message = str(caught.value)
    assert "invalid value 'own_rle' for clustering.rule: no such clustering rule" in message
    assert "; did you mean own_rule? Choose one of daca" in message
    assert "daca, scc, cec, random, central, none, gain, blend, exact, own_rule" in message
    with pytest.raises(FedcastError) as caught:
        find("allocation", "qqqq")
    assert "allocation.method" in str(caught.value)
    assert "no such allocation method; choose one of jfvo" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "name", "kind"),
    [("data", "shards", "partition"), ("data", "mnist", "dataset"), ("training", "mlp", "model")],
)
def test_an_option_table_belongs_to_the_choice_of_its_name(section, name, kind, monkeypatch):
    monkeypatch.setattr(registry, "_built_in", lambda kind, name: registry.Choice(kind, name, None, "built in"))
    choice = find_in_section(section, name)
    assert (choice.kind, choice.name) == (kind, name)
    assert find_in_section(section, "nothing") is None
    assert find_in_section("clustering", name) is None


def test_built_in_choices_import_only_their_own_module(monkeypatch):
    imported = []
    own = value("built in")

    def import_module(name):
        imported.append(name)
        return SimpleNamespace(RULE=own)

    monkeypatch.setattr(registry.importlib, "import_module", import_module)
    registry._built_in.cache_clear()
    try:
        assert find("clustering", "gain").value is own
        assert find("clustering", "gain").origin == "built in"
        assert imported == ["fedcast.clustering.gain"]
    finally:
        registry._built_in.cache_clear()


def test_a_file_registers_what_it_defines(file):
    digest = load_file(file)
    choice = find("clustering", "own")
    assert choice.origin == f"file {file}"
    assert choice.options().weight == 0.5
    assert type(pickle.loads(pickle.dumps(choice.value))) is type(choice.value)
    assert digest == hashlib.sha256(FILE.encode()).hexdigest()
    register("allocation", "later", value())
    assert find("allocation", "later").origin == "registered by Python code"


def test_the_first_use_of_a_file_says_that_it_is_run(file, caplog):
    with caplog.at_level(logging.INFO, logger="fedcast.registry"):
        load_file(file)
        load_file(file)
    assert [record.message for record in caplog.records] == [
        f"running plug-in file {file}: plug-ins are code, use only files that you trust"
    ]


def test_a_file_that_changes_within_a_second_is_run_as_it_is(file, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # Python would take its compiled copy for that of the file
    for name in ("own", "new"):
        file.write_text(FILE.replace('"own"', f'"{name}"'))
        os.utime(file, (1e9, 1e9))
        load_file(file)
        assert name in names("clustering")


def test_a_file_is_run_again_only_when_its_content_changes(file, tmp_path):
    counted = tmp_path / "count.txt"
    text = FILE + f"\nwith open({str(counted)!r}, 'a') as stream:\n    stream.write('x')\n"
    file.write_text(text)
    first = load_file(file)
    before = find("clustering", "own").value
    assert load_file(str(file)) == first
    assert (counted.read_text(), find("clustering", "own").value) == ("x", before)
    file.write_text(text.replace("does nothing", "does something"))
    assert load_file(file) != first
    assert counted.read_text() == "xx"
    assert find("clustering", "own").summary == "does something"


def test_a_relative_path_is_the_same_file(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    load_file(file.name)
    assert find("clustering", "own").origin == f"file {file}"
    monkeypatch.chdir("/")
    assert load_file(file)


def test_names_of_two_files_must_differ(file, tmp_path):
    load_file(file)
    other = tmp_path / "other.py"
    other.write_text(FILE + "# another\n")
    with pytest.raises(
        FedcastError, match=rf"plugins: {other}: plug-in 'own': clustering rule 'own' exists already \(file {file}\)"
    ):
        load_file(other)
    assert find("clustering", "own").origin == f"file {file}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import sys\nsys.exit('gone')", "SystemExit: gone"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def f(:", "SyntaxError"),
        ("from fedcast.registry import register\nregister('clustering', 'daca', None)", "plug-in 'daca'"),
    ],
)
def test_a_file_that_fails_is_one_error_and_is_run_again_next_time(file, text, message):
    file.write_text(text)
    for _ in range(2):
        with pytest.raises(FedcastError, match=f"plugins: {file}: {message}"):
            load_file(file)
    assert not [name for name in sys.modules if name.startswith("fedcast_plugin_")]
    register("clustering", "later", value())
    assert find("clustering", "later").origin == "registered by Python code"
    file.write_text(FILE)
    load_file(file)
    assert find("clustering", "own").origin == f"file {file}"


def test_a_file_that_fails_leaves_nothing_registered(file):
    file.write_text(FILE + "\nraise RuntimeError('too late')\n")
    with pytest.raises(FedcastError, match="too late"):
        load_file(file)
    assert "own" not in names("clustering")


def test_a_change_that_fails_and_is_undone(file):
    load_file(file)
    file.write_text("raise RuntimeError('not today')")
    with pytest.raises(FedcastError, match="not today"):
        load_file(file)
    assert "own" not in names("clustering")
    file.write_text(FILE)
    load_file(file)
    assert find("clustering", "own").summary == "does nothing"


def test_a_name_that_a_changed_file_no_longer_registers_is_gone(file):
    load_file(file)
    file.write_text(FILE.replace('"own"', '"renamed"'))
    load_file(file)
    assert names("clustering")[-1] == "renamed"
    assert "own" not in names("clustering")


def test_a_missing_file_a_folder_and_another_ending(tmp_path):
    with pytest.raises(FedcastError, match="plugins: no.py: No such file or directory; expected a Python file"):
        load_file("no.py")
    with pytest.raises(FedcastError, match=f"plugins: {tmp_path}: Is a directory; expected a Python file"):
        load_file(tmp_path)
    text = tmp_path / "mine.txt"
    text.write_text(FILE)
    with pytest.raises(FedcastError, match="mine.txt: expected a Python file, its name ending in .py"):
        load_file(text)


class Entry:
    """An entry point of an installed package."""

    value, module = "mine:plugin", "mine"

    def __init__(self, load, dist=None):
        self.load, self.dist = load, dist


def test_installed_packages_are_loaded_once_and_named_with_their_version(monkeypatch):
    calls = []

    def load():
        calls.append(1)
        register("clustering", "packed", value())

    groups = []

    def entry_points(group):
        groups.append(group)
        return [Entry(load, SimpleNamespace(name="mine", version="1.2"))]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert find("clustering", "packed").origin == "package mine 1.2"
    assert "packed" in names("clustering")
    assert (calls, groups) == ([1], ["fedcast.plugins"])


def test_a_package_that_fails_is_reported_and_the_others_are_loaded(monkeypatch, caplog):
    def fail():
        raise ValueError("broken")

    entries = [
        Entry(fail, SimpleNamespace(name="bad", version="0")),
        Entry(lambda: register("clustering", "good", value())),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    assert names("clustering")[-1] == "good"
    assert find("clustering", "good").origin == "package mine:plugin"
    assert "plug-in package bad 0 could not be loaded: ValueError: broken" in caplog.text


def test_an_exception_in_any_module_of_a_package_is_its_plug_ins(monkeypatch, tmp_path):
    (tmp_path / "my_rules").mkdir()
    (tmp_path / "my_rules" / "steps.py").write_text("def step(size):\n    return 1 / size\n")
    (tmp_path / "my_rules" / "rule.py").write_text(
        FILE.replace(
            "    summary", "    def run(self):\n        from my_rules.steps import step\n        step(0)\n    summary"
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = importlib.metadata.EntryPoint("mine", "my_rules.rule", "fedcast.plugins")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    with pytest.raises(ZeroDivisionError) as raised:
        find("clustering", "own").value.run()
    steps = tmp_path / "my_rules" / "steps.py"
    expected = f"plug-in clustering rule 'own': ZeroDivisionError: division by zero (in step, {steps}, line 2)"
    assert str(registry.plugin_error(raised.value)).startswith(expected)
    with pytest.raises(KeyError) as raised:
        {}["not of a plug-in"]
    assert registry.plugin_error(raised.value) is None


def test_the_group_of_entry_points_is_read_from_the_installed_packages(monkeypatch):
    """`entry_points` of the standard library accepts the call that `load_packages` makes."""
    monkeypatch.setattr(registry, "entry_points", importlib.metadata.entry_points)
    registry.load_packages()
