"""Versions and the commit of the source that made a run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedcast import __version__

_PACKAGES = ("torch", "numpy", "scipy", "numba", "scikit-learn")
_COMMIT = "commit"
# The file of a run folder that holds its provenance.
VERSIONS_FILE = "versions.json"


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, fedcast, the packages it computes with, and more by name.

    Example:
        >>> list(versions("no-such-package"))[:2], versions("no-such-package")["no-such-package"]
        (['python', 'fedcast'], 'absent')
    """
    found = {"python": platform.python_version(), "fedcast": __version__}
    return found | {package: _version_of(package) for package in (*_PACKAGES, *more)}


def provenance(resumed: Path | None = None) -> dict[str, str]:
    """Return the versions and, where fedcast runs from a git checkout, the commit of its source.

    The commits of a folder whose run is resumed are named too.
    """
    commits = [read_provenance(resumed).get(_COMMIT) if resumed else None, _own_commit()]
    named = dict.fromkeys(commit for text in commits if text for commit in text.split(", "))
    return versions() | ({_COMMIT: ", ".join(named)} if named else {})


def read_provenance(folder: Path) -> dict[str, str]:
    """Return the provenance that a run folder names; empty if it has none that is readable."""
    try:
        found = json.loads((folder / VERSIONS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def without_commit(made_by: Mapping[str, str]) -> dict[str, str]:
    """Return versions alone."""
    return {name: text for name, text in made_by.items() if name != _COMMIT}


def source_commit(*folders: Path) -> str | None:
    """Return the commit of folders of source files in a git checkout, marked if their tracked files differ from it.

    None if the first folder is not tracked, as that of a package installed inside the checkout of another project.
    """
    if not _git(folders[0], "ls-files", "--", "."):
        return None
    commit = _git(folders[0], "rev-parse", "--short=12", "HEAD")
    changed = _git(folders[0], "status", "--porcelain", "--untracked-files=no", "--", *map(str, folders))
    if changed is None:  # a folder outside the checkout, for example
        return None
    return f"{commit} with changes" if commit and changed else commit


@cache
def _own_commit() -> str | None:
    # Once, since the process goes on with the code that it has imported.
    return source_commit(Path(__file__).parents[1])


@cache
def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _git(folder: Path, *words: str) -> str | None:
    """Return the output of a git command; None if it fails, without git for example."""
    # Hooks of git name another checkout in these variables; a lock could disturb the user's own commands.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = own | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
