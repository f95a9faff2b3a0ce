"""Fig. 6: rounds to two targets and final accuracy against the average EMD, with fits."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.errors import FedcastError
from fedcast.report.figures.palette import colour
from fedcast.rounds import AccuracyFit, FormName, RoundsModel, fit_accuracy, fit_rounds
from fedcast.scenario import Scenario
from fedcast_paper import fig1a, fig4
from fedcast_paper.drawing import BLUE, dress, legend, new_figure, percent_axis
from fedcast_paper.job import Job
from fedcast_paper.measures import rank_correlation
from fedcast_paper.over_seeds import run_row
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.settings import assumptions
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = (
    "Rounds grow with the average EMD, slowly at first and then ever faster; 1/(b1 D² + b2 D + b3) fits with NMSE "
    "0.141 at target 0.95 and 0.063 at 0.96. Final accuracy falls with the EMD."
)
PAPER_NMSE = {0.95: 0.141, 0.96: 0.063}
FORMS: tuple[FormName, ...] = ("paper", "theory", "extended")
# A fit is said to predict if it leaves less of the spread of rounds unexplained.
PREDICTS = 0.2
_POINTS = 41
_WITHOUT, _ALL = "without sharing", "all"


def scenarios(job: Job) -> list[Scenario]:
    """Plain FedAvg at every skew, and every strategy at one of them."""
    return fig1a.scenarios(job) + fig4.panel_scenarios(job, "mnist")


def targets(job: Job) -> tuple[float, ...]:
    """The paper's two; digits do not come so far in the few rounds of the smoke scale."""
    return job.sized(smoke=(0.15, 0.2), full=tuple(PAPER_NMSE))


def data(job: Job) -> Result:
    """Rounds and accuracy of every run, and fits to runs without sharing, as in the paper, and to all of them."""
    runs = trained_runs(job, scenarios(job))
    groups = {_WITHOUT: [run for run in runs if run.rule == "none"], _ALL: runs}
    fits, lines = [], []
    for group, some in groups.items():
        for target in targets(job):
            for form in FORMS:
                if (model := _fit(some, target, form)) is not None:
                    fits.append(_fit_row(group, model, some))
                    lines += [{"runs": group, "target": target, "form": form, **point} for point in _line(model)]
    falling = fit_accuracy([_emd(run) for run in runs], [run.accuracy for run in runs])
    curve = [{"emd": emd, "accuracy": falling.at(emd)} for emd in _spread(max(_emd(run) for run in runs))]
    rows = [
        run_row(run, one_class_share=run.scenario.data.single_class_share)
        | {f"rounds_to_{target}": run.rounds_to(target) for target in targets(job)}
        for run in runs
    ]
    return Result(
        tables={
            "runs": columns_of(rows), "fits": columns_of(fits), "lines": columns_of(lines),
            "accuracy": columns_of([{"nmse": falling.nmse}]), "accuracy line": columns_of(curve),
        },
        scenario=runs[0].scenario.model_dump(mode="json"),
        assumptions=assumptions(
            job, runs,
            skew="0 to 100 % of users hold one class; sharing at 80 %",
            rounds="first round that meets the target, not smoothed; runs that never do are left out of fits",
        ),
        verdicts=(*_rounds_verdicts(runs, columns_of(fits), targets(job)), _accuracy_verdict(runs)),
        notes=(*_form_notes(groups[_WITHOUT], targets(job)[0]), _accuracy_note(runs, falling)),
    )  # fmt: skip


def _emd(run: Trained) -> float:
    return run.facts["emd_after_b"]


def _fit(runs: list[Trained], target: float, form: FormName) -> RoundsModel | None:
    met = [run for run in runs if run.rounds_to(target)]
    try:
        return fit_rounds(
            [_emd(run) for run in met], [run.rounds_to(target) or 0 for run in met], target_accuracy=target,
            shift=[run.facts["shift"] for run in met], form=form, bootstrap=0,
        )  # fmt: skip
    except FedcastError:
        return None  # too few runs met the target at too few skews


def _fit_row(group: str, model: RoundsModel, runs: list[Trained]) -> dict[str, Any]:
    met = sum(run.rounds_to(model.target_accuracy) is not None for run in runs)
    return {
        "runs": group,
        "target": model.target_accuracy,
        "form": model.form,
        "beta": ", ".join(f"{value:.4g}" for value in model.beta),
        "nmse": model.nmse if math.isfinite(model.nmse) else None,
        "paper_nmse": PAPER_NMSE.get(model.target_accuracy) if model.form == "paper" else None,
        "met": met,
        "of": len(runs),
    }


def _line(model: RoundsModel) -> list[dict[str, float]]:
    return [
        {"emd": float(emd), "rounds": float(model.curve(float(emd)).rounds[0])} for emd in _spread(model.skew_range[1])
    ]


def _spread(reach: float) -> list[float]:
    """Points from 0 on, closer to each other towards the end, where curves bend."""
    return [float(reach * (1 - left**2)) for left in np.linspace(1, 0, _POINTS)]


def _rounds_verdicts(runs: list[Trained], fits: Columns, targets: tuple[float, ...]) -> tuple[Verdict, ...]:
    found = []
    for target in targets:
        plain = where(fits, runs=_WITHOUT, target=target, form="paper")["nmse"]
        every = where(fits, runs=_ALL, target=target, form="paper")["nmse"]
        if not plain or plain[0] is None or not every or every[0] is None:
            continue
        shared = [run for run in runs if run.rule != "none" and run.rounds_to(target)]
        within = rank_correlation([_emd(run) for run in shared], [run.rounds_to(target) or 0 for run in shared])
        found.append(
            Verdict(
                f"the average EMD predicts the rounds to {percent(target)}",
                "yes" if plain[0] < PREDICTS and within.rises else "partly" if plain[0] < PREDICTS else "no",
                f"NMSE {plain[0]:.3f} over runs without sharing, {every[0]:.3f} over all; among runs that share at one "
                f"skew the rank correlation of EMD and rounds is {within}",
            )
        )
    return tuple(found)


def _accuracy_verdict(runs: list[Trained]) -> Verdict:
    without, shared = (
        rank_correlation([_emd(run) for run in some], [-run.accuracy for run in some])
        for some in ([run for run in runs if run.rule == "none"], [run for run in runs if run.rule != "none"])
    )
    return Verdict(
        "final accuracy falls as the average EMD grows",
        "yes" if without.rises and shared.rises else "partly" if without.rises else "no",
        f"rank correlation of EMD and final error {without} over runs without sharing, {shared} among runs that share "
        "at one skew",
    )


def _form_notes(runs: list[Trained], target: float) -> list[str]:
    """Why a form that is told more fits worse; empty where too few skews meet the target to say it."""
    slopes = _log_slopes(runs, target)
    if len(slopes) < 2:
        return []
    return [
        f"`extended` is told the shift too, but takes the logarithm of rounds to grow in a straight line with the EMD. "
        f"That of the rounds to {percent(target)} bends: it grows by {slopes[0]:.1f} per unit of EMD between the two "
        f"least skews, by {slopes[-1]:.1f} between the two largest that meet the target."
    ]


def _log_slopes(runs: list[Trained], target: float) -> list[float]:
    """How the logarithm of mean rounds grows with the mean EMD from one skew that meets a target to the next."""
    means = []
    for some in fig1a.by_one_class_share(runs).values():
        met = [run for run in some if run.rounds_to(target)]
        if met:
            rounds = np.mean([run.rounds_to(target) or 0 for run in met])
            means.append((float(np.mean([_emd(run) for run in met])), float(np.log(rounds))))
    return [(upper[1] - lower[1]) / (upper[0] - lower[0]) for lower, upper in pairwise(sorted(means))]


def _accuracy_note(runs: list[Trained], falling: AccuracyFit) -> str:
    """How well the curve that plans refuse targets by follows the runs."""
    worst = max(runs, key=lambda run: abs(run.accuracy - falling.at(_emd(run))))
    off = 100 * (falling.at(_emd(worst)) - worst.accuracy)
    return (
        f"The falling curve nearest to the final accuracies has NMSE {falling.nmse:.3f}; it is off most at EMD "
        f"{_emd(worst):.2f}, by {off:+.1f} points."
    )


def draw(result: Result) -> Figure:
    """Runs as marks and fits as lines: rounds at left, final accuracy at right."""
    runs, lines = result.tables["runs"], result.tables["lines"]
    figure = new_figure(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    for place, target in enumerate(sorted(set(lines["target"])), start=1):
        met = {
            name: [value for value, rounds in zip(column, runs[f"rounds_to_{target}"], strict=True) if rounds]
            for name, column in runs.items()
        }
        _draw_runs(left, met, f"rounds_to_{target}", colour(place), f"{percent(target)}, ")
        line = where(lines, runs=_WITHOUT, target=target, form="paper")
        left.plot(line["emd"], line["rounds"], color=colour(place), lw=1.5, label=f"{percent(target)}, paper's form")
    _draw_runs(right, runs, "accuracy", BLUE)
    line = result.tables["accuracy line"]
    right.plot(line["emd"], line["accuracy"], color=BLUE, lw=1.5, label="nearest falling curve")
    percent_axis(right.yaxis)
    dress(left, title="rounds to the target; fit to runs without sharing", x="average EMD after sharing")
    dress(right, title="final accuracy; fit to all runs", x="average EMD after sharing")
    legend(left)
    legend(right)
    return figure


def _draw_runs(axes: Axes, runs: Columns, value: str, shade: str, head: str = "") -> None:
    """Those that share as hollow triangles."""
    shared = [rule != "none" for rule in runs["rule"]]
    for chosen, mark, fill, name in ((False, "o", shade, _WITHOUT), (True, "^", "none", "with sharing")):
        x, y = (
            [cell for cell, shares in zip(runs[column], shared, strict=True) if shares is chosen]
            for column in ("emd_after", value)
        )
        axes.scatter(x, y, s=20, marker=mark, facecolors=fill, edgecolors=shade, linewidths=0.8, label=f"{head}{name}")
