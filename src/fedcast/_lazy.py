"""Names of a package that are imported when first used, so that importing the package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str, init_file: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that imports what its file imports under ``if TYPE_CHECKING:``.

    The imports for type checkers are thus the only table of names and modules (as in SPEC 1 of Scientific Python,
    which keeps it in a stub file). `package` and `init_file` are the module's ``__name__`` and ``__file__``.
    """

    @cache
    def module_of() -> dict[str, str]:
        import ast

        blocks = [node for node in ast.parse(Path(init_file).read_bytes()).body if isinstance(node, ast.If)]
        imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
        return {alias.name: str(line.module) for line in imports for alias in line.names}

    def get_attribute(name: str) -> Any:
        if name.startswith("__") or name not in module_of():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of()[name]), name)

    return get_attribute
