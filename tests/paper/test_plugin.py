"""fedcast-paper is a plug-in: it uses the public interface of fedcast alone, and fedcast does not need it."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAPER, FEDCAST = TOP / "paper/src/fedcast_paper", TOP / "src/fedcast"


def imported_names(file):
    """Yield module and name of every import in a file, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_the_package_imports_public_names_of_rooms_alone():
    checked = 0
    for file in PAPER.rglob("*.py"):
        for module, name in imported_names(file):
            if module.split(".")[0] != "fedcast":
                continue
            assert module.count(".") <= 1, f"{file.name} imports the inner module {module}"
            public = getattr(import_module(module), "__all__", None)  # modules that are no packages may have none
            allowed = name in public if public is not None else not name.startswith("_")
            assert allowed, f"{file.name}: {name} is no public name of {module}"
            checked += 1
    assert checked > 40, "the search finds no imports"


def test_fedcast_imports_nothing_of_the_package():
    found = [file for file in FEDCAST.rglob("*.py") for module, _ in imported_names(file) if "fedcast_paper" in module]
    assert found == []


def test_the_command_comes_from_an_entry_point():
    commands = [entry.value for entry in entry_points(group="fedcast.commands") if entry.name == "reproduce"]
    assert commands == ["fedcast_paper.command:reproduce"]


@pytest.fixture
def no_old_name(monkeypatch):
    monkeypatch.delitem(sys.modules, "fedcast.theory", raising=False)
    monkeypatch.delattr("fedcast.theory", raising=False)


@pytest.mark.usefixtures("no_old_name")
def test_the_old_name_of_the_theory_is_an_alias():
    with pytest.warns(DeprecationWarning, match=r"import fedcast_paper\.theory"):
        old = import_module("fedcast.theory")
    assert old.convergence_bound is import_module("fedcast_paper.theory").convergence_bound


@pytest.mark.usefixtures("no_old_name")
def test_the_old_name_without_the_package_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "fedcast_paper"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fedcast_paper", None)
    with (
        pytest.warns(DeprecationWarning, match="renamed"),
        pytest.raises(ModuleNotFoundError, match=r"fedcast-paper, which is not installed: run `pip install \./paper`"),
    ):
        import_module("fedcast.theory")


def test_finding_the_command_imports_nothing_large():
    large = ("torch", "matplotlib", "scipy", "numpy", "pydantic")
    code = f"import sys, fedcast_paper.command; print([name for name in {large} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
