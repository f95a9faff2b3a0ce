"""What made a result: versions of the packages that decide it, and the commit of the source if there is one."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from fedcast.runs.versions import versions

_NOT_FOUND = "unknown"


def origin() -> dict[str, str]:
    """Versions and commit.

    Example:
        >>> list(origin())[:3]
        ['commit', 'python', 'fedcast']
    """
    return {"commit": source_commit(), **versions("cvxpy")}


def source_commit(folder: Path = Path(__file__).parent) -> str:
    """The commit that is checked out around a folder, with a mark if source files differ from it."""
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return _NOT_FOUND
    top = _git(folder, "rev-parse", "--show-toplevel")
    changed = _git(Path(top), "status", "--porcelain", "--untracked-files=no", "--", "src")
    return f"{commit} with changes" if changed else commit


def processor() -> str:
    """The name of this machine's processor, as far as it says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
