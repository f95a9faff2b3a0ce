"""No two modules or classes of one name that mean different things."""

import ast
from collections import Counter
from pathlib import Path

import fedcast

ROOT = Path(fedcast.__file__).parent
# Named after what they are about: commands and conformance kits; `templates` is the code of exported runs.
NAMED_AFTER = {"cli", "testing", "templates"}
FILES = [path for path in ROOT.rglob("*.py") if path.parent.name not in NAMED_AFTER and path.name != "__init__.py"]


def repeated(names):
    return [name for name, count in Counter(names).items() if count > 1]


def test_module_names_are_used_once():
    assert repeated(path.stem for path in FILES) == []


def test_class_names_are_used_once():
    trees = [ast.parse(path.read_bytes()) for path in FILES]
    assert repeated(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)) == []
