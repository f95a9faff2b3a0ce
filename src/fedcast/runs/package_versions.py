"""Versions of what decides a result."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from fedcast import __version__

_PACKAGES = ("torch", "numpy", "scipy", "numba", "scikit-learn")


def versions(*more: str) -> dict[str, str]:
    """Of Python, fedcast, the packages it computes with, and more by name.

    Example:
        >>> list(versions("no-such-package"))[:2], versions("no-such-package")["no-such-package"]
        (['python', 'fedcast'], 'absent')
    """
    return {
        "python": platform.python_version(),
        "fedcast": __version__,
        **{package: _version(package) for package in (*_PACKAGES, *more)},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
