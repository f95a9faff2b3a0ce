"""fedcast train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.exits import INTERRUPTED
from fedcast.cli.options import DataDir, Overrides, Preset, ScenarioFile, read_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from fedcast.training import Record


def train(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("out/runs"),
    resume: Annotated[bool, typer.Option(help="Resume from the run's checkpoint, if there is one.")] = True,
) -> None:
    """Plan, share and train one run. Ctrl-C writes a checkpoint and stops."""
    from rich.console import Console

    from fedcast.runs import is_done, load_run, reset_run, run_folder, run_scenario

    scenario = read_scenario(path, preset, overrides, usual="digits")
    if not resume:
        reset_run(run_folder(out, scenario))
    done = is_done(run_folder(out, scenario))
    with _Bar(Console(stderr=True), scenario.training.rounds) as show, _CatchInterrupts() as stop_requested:
        folder = run_scenario(scenario, out, data_dir=data_dir, progress=show, should_stop=stop_requested)
    if folder is None:
        raise typer.Exit(INTERRUPTED)
    run = load_run(folder)
    last, target = run.history.records[-1], scenario.rounds.target_accuracy
    reached = run.history.rounds_to(target)
    answer = f"reached in round {reached}" if reached is not None else "not reached"
    noisy = "" if last.noisy_accuracy is None else f", with the users' noise {last.noisy_accuracy:.4f}"
    typer.echo(
        f"{run.rule}: accuracy {last.accuracy:.4f} after round {last.round} (worst tenth of users "
        f"{last.worst_accuracy:.4f}{noisy}), simulated {last.seconds:,.1f} s and {last.energy_j:,.3g} J; "
        f"target {target} {answer}\n{run.facts.distinct_samples:,} samples were shared with "
        f"{run.facts.members:,} users; results are in {folder}"
        + (", finished before; --no-resume trains again" if done else "")
    )


class _Bar:
    """A progress bar with accuracy, simulated time and remaining time."""

    def __init__(self, console: Console, rounds: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self.task = self.progress.add_task("training", total=rounds, state="")

    def __enter__(self) -> Callable[[Record], None]:
        self.progress.start()
        return self.show

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, record: Record) -> None:
        """Update the bar after a round."""
        state = f"accuracy {record.accuracy:.3f}, {record.seconds:,.0f} simulated s"
        self.progress.update(self.task, completed=record.round, state=state)


class _CatchInterrupts:
    """Make the first Ctrl-C stop training after its round with a checkpoint; the second one ends at once."""

    def __enter__(self) -> Callable[[], bool]:
        import signal

        self.requested = False
        self.before = signal.getsignal(signal.SIGINT)

        def request(*_: object) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            print("stopping after this round; press Ctrl-C again to end at once", file=sys.stderr)

        signal.signal(signal.SIGINT, request)
        return lambda: self.requested

    def __exit__(self, *_: object) -> None:
        import signal

        signal.signal(signal.SIGINT, self.before)
