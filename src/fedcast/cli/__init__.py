"""The command line: one file per command, no logic of its own."""

from __future__ import annotations


def main() -> None:
    """Run `fedcast`; every error a person can cause is one clear line and exit code 2."""
    from fedcast.cli.app import run

    raise SystemExit(run())
