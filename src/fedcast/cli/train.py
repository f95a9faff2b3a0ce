"""The commands `fedcast train` and `fedcast fit-rounds`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import INTERRUPTED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario, words
from fedcast.cli.output import check_file, progress_bars, screen
from fedcast.errors import FedcastError
from fedcast.formatting import pluralize, quantity

if TYPE_CHECKING:
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

    from fedcast.rounds import fit_notes
    from fedcast.runs import is_done, load_run, reset_run, run_folder, run_scenario

    scenario = read_scenario(path, preset, overrides, usual="digits")
    if not resume:
        reset_run(run_folder(out, scenario))
    done = is_done(run_folder(out, scenario))
    for note in fit_notes(scenario):
        typer.echo(f"fedcast: {note}", err=True)
    with progress_bars(Console(stderr=True)) as bars, _interrupts_caught() as stop_requested:
        task = bars.add_task("training", total=scenario.training.rounds, state="")

        def show(record: Record) -> None:
            state = f"accuracy {record.accuracy:.3f}, {record.seconds:,.0f} simulated s"
            bars.update(task, completed=record.round, state=state)

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
        f"{last.worst_accuracy:.4f}{noisy}), simulated {quantity(last.seconds, 's')} and "
        f"{quantity(last.energy_j, 'J')}; target {target} {answer}\n"
        f"{pluralize(run.facts.distinct_samples, 'sample')} shared with "
        f"{pluralize(run.facts.members, 'user')}; results are in {folder}"
        + (", finished before; --no-resume trains again" if done else "")
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


def fit_rounds(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="File to write the fit to; name it as rounds.fit in a scenario.")] = Path(
        "fit.json"
    ),
    shares: Annotated[
        str, typer.Option(help="Shares of users with one class, separated by commas.")
    ] = "0,0.3,0.5,0.7,0.8,0.9,1",
    rules: Annotated[str, typer.Option(help="Clustering rules, separated by commas.")] = "none,daca",
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each setting.")] = 2,
    runs: Annotated[Path | None, typer.Option(help="CSV file of runs: read if it exists, otherwise written.")] = None,
) -> None:
    """Train at several degrees of skew and fit the rounds to the target accuracy as a function of skew."""
    from fedcast.clustering import find_rule
    from fedcast.rounds import save_fit
    from fedcast.runs import RoundsRun, fit_runs, load_rounds_runs, run_rounds_grid, save_rounds_runs

    scenario = read_scenario(path, preset, overrides)
    names = words("--rules", rules)
    for name in names:
        find_rule(name)
    check_file("--out", out, [path])
    check_file("--runs", runs, [path], table=True)
    target = scenario.rounds.target_accuracy
    console = screen()
    degrees = _numbers("--shares", shares)

    def show(run: RoundsRun) -> None:
        met = f"round {run.rounds}" if run.rounds > 0 else "never"
        console.print(
            f"share {run.single_class_share:g}, {run.rule}, seed {run.seed}: EMD {run.emd:.3f}, shift {run.shift:.3f}, "
            f"target {met}, accuracy {run.accuracy:.4f}",
        )

    if runs is not None and runs.exists():
        found = load_rounds_runs(runs)
    else:
        found = run_rounds_grid(scenario, degrees, names, range(seeds), data_dir=data_dir, progress=show)
        if runs is not None:
            save_rounds_runs(found, runs)
    dataset = scenario.data.dataset
    fit = fit_runs(found, target, out.stem, dataset=dataset, source=f"{len(found)} runs of {dataset}")
    save_fit(fit, out)
    for form, model in fit.models.items():
        values = ", ".join(f"{value:.4g}" for value in model.beta)
        console.print(f"{form}: NMSE {model.nmse:.3f}, parameters {values}")
    console.print(
        f"wrote {out}; use it with --set rounds.fit={out} --set rounds.target_accuracy={target}", soft_wrap=True
    )


def _numbers(option: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise FedcastError(f"invalid value {text!r} for {option}: expected numbers from 0 to 1 separated by commas")
    return numbers
