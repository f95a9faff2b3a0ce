"""Versions and the commit of the source that made a run."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedcast import __version__

_PACKAGES = ("torch", "numpy", "scipy", "numba", "scikit-learn")
_COMMIT = "commit"


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, fedcast, the packages it computes with, and more by name.

    Example:
        >>> list(versions("no-such-package"))[:2], versions("no-such-package")["no-such-package"]
        (['python', 'fedcast'], 'absent')
    """
    found = {"python": platform.python_version(), "fedcast": __version__}
    return found | {package: _version_of(package) for package in (*_PACKAGES, *more)}


def provenance() -> dict[str, str]:
    """Return the versions and, where fedcast runs from a git checkout, the commit of its source."""
    commit = _own_commit()
    return versions() | ({_COMMIT: commit} if commit else {})


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
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
