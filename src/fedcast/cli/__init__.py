"""The command line; its commands only read arguments, call the library and print."""

from __future__ import annotations

# Exit codes; SOME_FAILED: some runs of a comparison have no result.
USER_ERROR, BUG, INTERRUPTED, SOME_FAILED = 2, 1, 130, 3


def main() -> None:
    """Run `fedcast`; invalid input gives one clear line and exit code 2."""
    from fedcast.cli.app import run

    raise SystemExit(run())
