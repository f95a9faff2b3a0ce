"""The command `fedcast fit-rounds`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario, words
from fedcast.cli.output import check_file, plain_table, screen
from fedcast.errors import FedcastError
from fedcast.formatting import pluralize

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.runs import RoundsRun, RunsFile, Setting, StudyFit
    from fedcast.scenario import Scenario

_Number = TypeVar("_Number", int, float)


def fit_rounds(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="File to write the fit to.")] = Path("fit.json"),
    runs: Annotated[Path | None, typer.Option(help="File of runs, which are not repeated.")] = None,
    count: Annotated[int, typer.Option(help="Number of runs.")] = 60,
    targets: Annotated[str, typer.Option(help="Target accuracies; unset: six around yours.")] = "",
    rules: Annotated[str, typer.Option(help="Clustering rules.")] = "none,daca,gain,blend",
    epochs: Annotated[str, typer.Option(help="Numbers of local epochs.")] = "1,2,3,5,8",
    learning_rates: Annotated[str, typer.Option(help="Learning rates; unset: half, once and twice yours.")] = "",
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Number of processes.")] = 1,
) -> None:
    """Train runs of your task, and fit the rounds to a target accuracy to skew, local steps and learning rate.

    The data are divided by the scenario's kind of partition, at many degrees of skew. Ctrl-C keeps finished runs.
    """
    from fedcast.clustering import find_rule
    from fedcast.rounds import save_fit
    from fedcast.runs import RunsFile, check_same_task, check_study, design, fit_study, read_runs, study_task

    scenario = read_scenario(path, preset, overrides)
    names, rates = words("--rules", rules), _numbers("--learning-rates", learning_rates, float)
    for name in names:
        find_rule(name)
    ladder = _ladder(targets, scenario.rounds.target_accuracy)
    kept = runs or out.with_suffix(".runs.json")
    check_file("--out", out, [path, kept])
    check_file("--runs", kept, [path])
    dataset = check_study(scenario, data_dir)
    settings = design(
        scenario, count, rules=names, epochs=_numbers("--epochs", epochs, int), rates=rates,
        num_classes=dataset.num_classes,
    )  # fmt: skip
    task = study_task(scenario, dataset)
    found = read_runs(kept) if kept.exists() else RunsFile(task, ladder[-1], ())
    check_same_task(found, task, ladder[-1], kept)
    console = screen()
    console.print(
        f"runs in partition {scenario.data.partition}, to {', '.join(f'{one:g}' for one in ladder)}", soft_wrap=True
    )
    every = _train(console, scenario, settings, found, kept, data_dir, workers)
    used = [run for run in every if not rates or run.setting.learning_rate in rates]
    made = fit_study(used, scenario, task, ladder, out.stem)
    save_fit(made.fit, out)
    _print_fit(console, made, used, scenario)
    console.print(f"wrote {out}; use it with --set rounds.fit={out} --set rounds.form=law", soft_wrap=True)


def _ladder(text: str, target: float) -> list[float]:
    """Return the target accuracies to fit, which must have the scenario's between them."""
    from fedcast.runs import ladder_of

    ladder = _numbers("--targets", text, float, largest=1.0) or list(ladder_of(target))
    if not (len(ladder) > 1 and ladder[0] <= target <= ladder[-1]):
        raise FedcastError(
            f"invalid value {text!r} for --targets: expected two or more, from below to above "
            f"rounds.target_accuracy = {target:g}"
        )
    return ladder


def _train(
    console: Console,
    scenario: Scenario,
    settings: Sequence[Setting],
    found: RunsFile,
    kept: Path,
    data_dir: Path | None,
    workers: int,
) -> list[RoundsRun]:
    """Train the settings that the file of runs does not have, add each to it, and return all of its runs."""
    from fedcast.runs import RunsFile, run_study, save_runs

    done = {run.setting: run for run in found.runs}
    todo = [setting for setting in settings if setting not in done]
    console.print(f"{pluralize(len(todo), 'run')} to train; {pluralize(len(done), 'run')} in {kept}", soft_wrap=True)
    left = _time_left(len(todo))

    def finished(setting: Setting, run: RoundsRun | str) -> None:
        if not isinstance(run, str):
            done[setting] = run
            save_runs(RunsFile(found.task, found.top, tuple(done.values())), kept)
        said = _line(scenario, setting, run, scenario.rounds.target_accuracy)
        console.print(f"{said}; {left()}", soft_wrap=True)

    run_study(scenario, todo, found.top, data_dir=data_dir, workers=min(workers, len(todo) or 1), finished=finished)
    return list(done.values())


def _line(scenario: Scenario, setting: Setting, run: RoundsRun | str, target: float) -> str:
    """Return what a run was, and what came of it."""
    what = setting.describe(scenario.data.partition)
    if isinstance(run, str):
        return f"{what}: failed: {run}"
    rounds, met = run.rounds_to(target)
    answer = f"{target:g} in round {rounds}" if met else f"{target:g} not met in {rounds} rounds"
    return f"{what}: EMD {run.emd:.3f}, {answer}, best {max(run.accuracies):.3f}"


def _time_left(total: int) -> Callable[[], str]:
    """Return a function that counts finished runs, and says how long the others will take."""
    started, done = time.monotonic(), 0

    def tick() -> str:
        nonlocal done
        done += 1
        seconds = (time.monotonic() - started) / done * (total - done)
        estimate = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f"{done} of {total}, about {estimate} left" if done < total else f"{done} of {total}"

    return tick


def _print_fit(console: Console, made: StudyFit, runs: Sequence[RoundsRun], scenario: Scenario) -> None:
    """Print how many runs met each target, how well the fits fit, and what they cover."""
    fit, target = made.fit, scenario.rounds.target_accuracy
    at_target = sum(run.rounds_to(target)[1] for run in runs)
    console.print(
        f"\n{at_target} of {len(runs)} runs met {target:g}; the others count as censored", style="bold", soft_wrap=True
    )
    laws = {law.target_accuracy: law for law in fit.laws}
    table = plain_table("law to", "met by", "NMSE")
    for one, met in made.met.items():
        table.add_row(
            f"{one:g}", f"{met} of {len(runs)}", f"{laws[one].nmse:.2g}" if one in laws else "too few for a fit"
        )
    console.print(table)
    if made.held_out is not None:
        console.print(
            f"rounds of runs that were left out of the fit: median error {made.held_out.median:.0%}, 90 % of them "
            f"within {made.held_out.p90:.0%}",
            soft_wrap=True,
        )
    for form, model in fit.models.items():
        console.print(f"form {form}, of runs at your epochs and learning rate alone: NMSE {model.nmse:.2g}")
    if made.left_out:
        names, reason = ", ".join(made.left_out), next(iter(made.left_out.values()))
        console.print(f"not fitted: {names} ({reason})", soft_wrap=True)
    assert fit.domain is not None
    low, high = fit.domain.skew_range
    console.print(
        f"the fit is for {scenario.data.dataset} in partition {scenario.data.partition}, average EMD {low:.3f} to "
        f"{high:.3f}, learning rates {', '.join(f'{rate:g}' for rate in fit.domain.values['training.learning_rate'])}",
        soft_wrap=True,
    )
    for line in _unstable_rates(runs, target):
        console.print(line, soft_wrap=True)


def _unstable_rates(runs: Sequence[RoundsRun], target: float) -> list[str]:
    """Return a remark on the highest learning rates if far fewer runs met the target there than at the others."""
    rates = sorted({run.setting.learning_rate for run in runs})
    shares = {}
    for rate in rates:
        met = [run.rounds_to(target)[1] for run in runs if run.setting.learning_rate == rate]
        shares[rate] = sum(met) / len(met)
    return [
        f"at learning rate {rate:g} only {shares[rate]:.0%} of the runs met {target:g}: it may be too large; leave its "
        f"runs out with --learning-rates {','.join(f'{other:g}' for other in rates if other != rate)}"
        for rate in rates[1:]
        if shares[rate] < max(shares.values()) / 2
    ]


def _numbers(option: str, text: str, kind: type[_Number], largest: float | None = None) -> list[_Number]:
    """Return positive numbers separated by commas, ascending."""
    try:
        numbers = sorted({kind(part) for part in text.split(",")}) if text.strip() else []
    except ValueError:
        numbers = [kind(0)]
    if any(not 0 < number < (largest or float("inf")) for number in numbers):
        what = "whole numbers" if kind is int else "numbers"
        below = f" and < {largest:g}" if largest else ""
        raise FedcastError(f"invalid value {text!r} for {option}: expected {what} > 0{below} separated by commas")
    return numbers
