"""Scripts of studies, which no other test runs."""

import ast
import importlib
import importlib.util
import json
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[1] / "studies"
SCRIPTS = sorted(path.relative_to(STUDIES).as_posix() for path in STUDIES.rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_imports_of_fedcast_is_there(script):
    missing = []
    for node in ast.walk(ast.parse((STUDIES / script).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedcast"):
            module = importlib.import_module(node.module)
            missing += [f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]
    assert missing == []


def test_the_decomposition_gives_its_stored_rows():
    path = STUDIES / "decomposition" / "brute_force.py"
    spec = importlib.util.spec_from_file_location("brute_force", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    stored = json.loads((path.parent / "five_users.json").read_text(encoding="utf-8"))
    assert script.losses(stored["users"], 1) == pytest.approx(stored["rows"][1], rel=1e-6, abs=1e-9)
