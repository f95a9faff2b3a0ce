"""Start-up time: `import fedcast`, and the help of a command."""

from __future__ import annotations

import subprocess
import sys

from harness import Figure, run, seconds

_COMMANDS = {
    "cli.import_s": "import fedcast",
    "cli.plan_help_s": "from fedcast.cli.app import run; run(['plan', '--help'])",
    "cli.inspect_help_s": "from fedcast.cli.app import run; run(['inspect', '--help'])",
}


def start(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def measure(quick: bool) -> dict[str, Figure]:
    repeats = 5 if quick else 15
    figures = {}
    for name, code in _COMMANDS.items():
        start(code)
        how = f"a new process that runs `{code}`, median of {repeats}, warm cache"
        figures[name] = Figure(seconds(lambda code=code: start(code), repeats), "s", how)  # type: ignore[misc]
    bare = seconds(lambda: start("pass"), repeats)
    figures["cli.python_s"] = Figure(bare, "s", f"the same for an empty program, median of {repeats}: the floor")
    return figures


if __name__ == "__main__":
    run("the command line", measure)
