"""The command `fedcast train`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import INTERRUPTED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario
from fedcast.cli.output import progress_bars
from fedcast.formatting import pluralize, quantity

if TYPE_CHECKING:
    from fedcast.runs import StoredRun
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
    from fedcast.plan import scenario_notes
    from fedcast.runs import attendance_text, is_done, load_run, reset_run, run_folder, run_scenario

    scenario = read_scenario(path, preset, overrides, usual="digits")
    if not resume:
        reset_run(run_folder(out, scenario))
    done = is_done(run_folder(out, scenario))
    for note in scenario_notes(scenario):
        typer.echo(f"fedcast: {note}", err=True)
    with progress_bars() as bars, _interrupts_caught() as stop_requested:
        task = bars.add_task("training", total=scenario.training.rounds, state="")

        def show(record: Record) -> None:
            state = f"accuracy {record.accuracy:.3f}, {record.seconds:,.0f} simulated s"
            bars.update(task, completed=record.round, state=state)

        folder = run_scenario(scenario, out, data_dir=data_dir, progress=show, should_stop=stop_requested, reuse=resume)
    if folder is None:
        raise typer.Exit(INTERRUPTED)
    run = load_run(folder)
    last, target = run.history.records[-1], scenario.rounds.target_accuracy
    reached = run.history.rounds_to(target)
    answer = f"reached in round {reached}" if reached is not None else "not reached"
    noisy = "" if last.noisy_accuracy is None else f", with the users' noise {last.noisy_accuracy:.4f}"
    typer.echo(
        f"{run.rule}: accuracy {last.accuracy:.4f} after round {last.round} (worst tenth of users "
        f"{last.worst_accuracy:.4f}{noisy}), simulated {quantity(last.seconds, 's')} and "
        f"{quantity(last.energy_j, 'J')}; target {target} {answer}\n"
        f"{_shared_text(run)}; results are in {folder}"
        + (", finished before; --no-resume trains again" if done else "")
        + _fine_tuned_line(run)
        + (f"\n{lost}" if (lost := attendance_text(run.history)) else "")
        + (f"\ntraining took {run.timing.text}" if run.timing and not done else "")
    )


def _shared_text(run: StoredRun) -> str:
    """Return how much was shared with how many; if nothing although a plan might have, why."""
    facts = run.facts
    if facts.distinct_samples or run.scenario.clustering.rule == "none":
        shared = f"{pluralize(facts.distinct_samples, 'sample')} shared with {pluralize(facts.members, 'user')}"
        return f"{shared}{f' ({run.privacy})' if run.privacy else ''}"
    notes = () if run.plan is None else run.plan.notes
    why = "; ".join(notes) or "by the plan it would not shorten the task, or no user may share"
    return f"nothing is shared: {why} (`fedcast plan` shows more; allocation.method=fixed shares all the same)"


def _fine_tuned_line(run: StoredRun) -> str:
    """Return what fine-tuning brought, if users fine-tuned the model."""
    from fedcast.runs import fine_tuned_measures

    if not (found := fine_tuned_measures(run)):
        return ""
    own, worst, overall = found.values()
    epochs, last = pluralize(run.scenario.training.fine_tune_epochs, "epoch"), run.history.records[-1]
    return (
        f"\nusers on their own labels: {last.user_accuracy:.4f}; after fine-tuning for {epochs} {own:.4f} (worst tenth "
        f"{worst:.4f}), and {overall:.4f} on all labels"
    )


@contextmanager
def _interrupts_caught() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C stop training after its round with a checkpoint; the second one ends at once."""
    requested = False

    def request(*_: object) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        print("stopping after this round; press Ctrl-C again to end at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
