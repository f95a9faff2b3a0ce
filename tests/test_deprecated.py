"""Old module and function names work for one release, with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest

import fedcast
from fedcast import _deprecated


def import_old(name):
    """Import an old module as if for the first time; its package may warn too."""
    sys.modules.pop(name, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(name)
    return module, [str(warning.message) for warning in caught if warning.category is DeprecationWarning]


@pytest.mark.parametrize("old", sorted(_deprecated.MOVED))
def test_every_old_module_is_its_replacement(old):
    module, warned = import_old(old)
    new = _deprecated.MOVED[old]
    assert any(message.startswith(f"module {old} was renamed; import {new}.") for message in warned)
    assert module is importlib.import_module(new)
    assert module.__spec__.name == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fedcast.wireless.sidelink", "fedcast.network.sidelink"),
        ("fedcast.tables.csv_file", "fedcast.io.csv_file"),
        ("fedcast.study.store", "fedcast.runs.store"),
        ("fedcast.theory.constants", "fedcast_paper.theory.constants"),
    ],
)
def test_submodules_follow(old, new):
    module, warned = import_old(old)
    assert any(f"import {new}." in message for message in warned)
    assert module is importlib.import_module(new)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["fedcast.wireless.nonsense", "fedcast.nonsense", "fedcast.worlds"])
def test_names_that_never_were_do_not_import(name):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("old", "package", "function"),
    [("fedcast.study.sweep", "fedcast.runs", "sweep"), ("fedcast.clustering.compare", "fedcast.clustering", "compare")],
)
def test_an_old_module_does_not_hide_a_function_of_its_name(old, package, function):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"module {old} was renamed"):
        importlib.import_module(old)
    assert callable(getattr(importlib.import_module(package), function))


@pytest.mark.parametrize(("old", "new"), sorted(fedcast._RENAMED.items()))
def test_every_old_function_is_its_replacement(old, new):
    with pytest.warns(DeprecationWarning, match=f"fedcast.{old} was renamed; use fedcast.{new}"):
        function = getattr(fedcast, old)
    assert function is getattr(fedcast, new)
    assert new in fedcast.__all__
    assert old not in fedcast.__all__


def test_nothing_is_imported_for_old_names_until_they_are_used():
    code = "import sys, fedcast; sys.exit(' '.join(n for n in sys.modules if n.startswith('fedcast.') or n == 'numpy'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "fedcast._deprecated fedcast._lazy"


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [("scenario", "Clustering", "ClusteringSettings"), ("clustering", "Comparison", "RuleComparison")],
)
def test_renamed_classes_are_found_under_their_old_names(package, old, new):
    module = importlib.import_module(f"fedcast.{package}")
    with pytest.warns(DeprecationWarning, match=f"fedcast.{package}.{old} is now {new}"):
        assert getattr(module, old) is getattr(module, new)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
