"""The `fedcast` command: its parts, and how errors reach the person."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from fedcast import __version__
from fedcast.cli import BUG, INTERRUPTED, USER_ERROR
from fedcast.cli.attack import attack
from fedcast.cli.cluster import cluster
from fedcast.cli.compare import compare, report
from fedcast.cli.compare import run as run_scenario
from fedcast.cli.export_import import export, import_partition
from fedcast.cli.federation import federation
from fedcast.cli.fitting import fit_rounds
from fedcast.cli.inspection import inspect, network
from fedcast.cli.plan import plan
from fedcast.cli.scenarios import datasets, init, plugins, validate
from fedcast.cli.train import train
from fedcast.errors import FedcastError, MovedKeyWarning
from fedcast.formatting import printable
from fedcast.registry import loaded_plugins, plugin_error

app = typer.Typer(
    name="fedcast",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning on skewed data, made faster: who shares with whom, how much, and what it costs.",
    epilog="Errors are one line (--debug: traceback). Plug-in and model files are run: use only those you trust.",
)
for _command in (
    run_scenario, compare, report, init, validate, datasets, plugins, inspect, network, cluster, plan, fit_rounds,
    train, attack, export, import_partition,
):  # fmt: skip
    app.command()(_command)
app.add_typer(federation)
# Installed packages add commands of their own, as fedcast-paper adds `reproduce`.
for _entry in sorted(entry_points(group="fedcast.commands"), key=lambda entry: entry.name):
    app.command(_entry.name)(_entry.load())

# These do runs and keep each in a folder of its own; an interruption of any other command leaves nothing to resume.
_KEEP_RUNS = ("run", "compare", "train", "fit-rounds", "reproduce")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedcast {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or bool(os.environ.get("FEDCAST_DEBUG"))
    words = [word for word in words if word != "--debug"]
    command = typer.main.get_command(app)
    try:
        with _notes_on_screen():
            result = command.main(words, "fedcast", standalone_mode=False)
    except KeyboardInterrupt:
        return _stop("interrupted", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # The reader of a pipe went away (`fedcast plan | head`), for which Rich has an exit of its own: nothing to say,
        # and nobody to say it to.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            if debug or (of_plugin := plugin_error(error)) is None:
                raise
            return _stop(str(of_plugin), USER_ERROR)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        return _stop(*_explain(error))
    if result == INTERRUPTED:  # what Typer makes of Ctrl-C
        kept = "; what is finished is kept, and the same command resumes" if words[0] in _KEEP_RUNS else ""
        return _stop(f"interrupted{kept}", INTERRUPTED)
    return result if isinstance(result, int) else 0


@contextmanager
def _notes_on_screen() -> Iterator[None]:
    """Print as one line each: parameters that have moved, and plug-in files that are run."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("fedcast: note: %(message)s"))
    plugins = logging.getLogger("fedcast.registry")
    level = plugins.level
    plugins.addHandler(handler)
    plugins.setLevel(logging.INFO)
    with warnings.catch_warnings():
        # Not for other warnings: tests and users decide on those.
        warnings.filterwarnings("always", category=MovedKeyWarning)
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, MovedKeyWarning):
                print(f"fedcast: note: {printable(str(message))}", file=sys.stderr)
            else:
                shown(message, category, *rest, **more)

        warnings.showwarning = show
        try:
            yield
        finally:
            plugins.removeHandler(handler)
            plugins.setLevel(level)


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, FedcastError):
        return str(error), USER_ERROR
    if hasattr(error, "format_message"):  # a wrong option or argument
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context else ""
        return f"{error.format_message()}{where}", USER_ERROR
    if (of_plugin := plugin_error(error)) is not None:
        return str(of_plugin), USER_ERROR
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}", USER_ERROR
    known = loaded_plugins()
    whose = f" of fedcast or of a plug-in ({known}: check it by its kit in fedcast.testing)" if known else ""
    advice = "run again with --debug and report the traceback"
    return f"this is a bug{whose}: {type(error).__name__}: {error}; {advice}", BUG


def _stop(message: str, code: int) -> int:
    for line in message.split("\n"):
        print(f"fedcast: {printable(line)}", file=sys.stderr)
    return code
