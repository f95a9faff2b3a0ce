"""Fig. 4: loss and accuracy of every strategy on MNIST, CIFAR-10, Shakespeare and noise-skewed data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.formatting import pluralize
from fedcast.scenario import Scenario
from fedcast_paper.courses import COLOURS, after_start, draw_courses, log_loss, zoom_to_end
from fedcast_paper.drawing import dress, new_figure
from fedcast_paper.gains import NOT_WORSE, ahead_verdicts, gains_over, larger_gain, seeds_told
from fedcast_paper.job import Job
from fedcast_paper.over_seeds import course_rows, gain_rows, late_accuracy, mean_of, run_row
from fedcast_paper.result import Result, Verdict, columns_of, where
from fedcast_paper.settings import NOISE, STRATEGIES, assumptions, label_skew, task, under_rules
from fedcast_paper.trained import NOISY, Trained, check_some, trained_runs
from fedcast_paper.wording import mean_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = (
    "DACA beats FedAvg, SCC and CEC everywhere and matches or beats central sharing on CIFAR-10 and on noise-skewed "
    "data; gains are larger on CIFAR-10 than on MNIST; on Shakespeare DACA is 6 points above FedAvg."
)
PANELS = {
    "mnist": "MNIST, 80 % one-class users",
    "cifar10": "CIFAR-10, 80 % one-class users",
    "shakespeare": "Shakespeare, roles",
    "noise": "MNIST, noise grows from user to user",
}
# In points of accuracy.
PAPER_SHAKESPEARE_GAIN = 6.0


def scenarios(job: Job) -> list[Scenario]:
    """Every strategy on every panel."""
    return [run for panel in PANELS for run in panel_scenarios(job, panel)]


def panel_scenarios(job: Job, panel: str) -> list[Scenario]:
    """Every strategy on one panel; at full scale one seed where a run takes minutes on a GPU."""
    seeds = job.seeds_or(smoke=1, full=5 if panel in ("mnist", "noise") else 1)
    settings = {
        "mnist": task(job, "mnist", *label_skew()),
        "cifar10": task(job, "cifar10", *label_skew()),
        "shakespeare": task(job, "shakespeare"),
        "noise": task(job, "mnist", *NOISE),
    }
    return under_rules(job, settings[panel], STRATEGIES, seeds)


def data(job: Job) -> Result:
    """Courses and ends of every strategy; panels that were not run are left out."""
    panels = {panel: trained_runs(job, panel_scenarios(job, panel), some=False) for panel in PANELS}
    check_some([run for runs in panels.values() for run in runs])
    there = {panel: by_rule(runs) for panel, runs in panels.items() if runs}
    return Result(
        tables={
            "courses": columns_of(
                row
                for panel, rules in there.items()
                for rule, runs in rules.items()
                for row in course_rows(runs, panel=panel, rule=rule)
            ),
            "gains": columns_of(
                row
                for panel, rules in there.items()
                for rule, runs in rules.items()
                for row in gain_rows(runs, rules.get("none", []), panel=panel, rule=rule)
            ),
            "ends": columns_of(
                {"panel": panel, "rule": rule, **_end(runs)}
                for panel, rules in there.items()
                for rule, runs in rules.items()
            ),
            "runs": columns_of(run_row(run, panel=panel) for panel, runs in panels.items() for run in runs),
        },
        scenario=scenarios(job)[0].model_dump(mode="json"),
        assumptions=assumptions(
            job,
            [run for runs in panels.values() for run in runs],
            noise="equal random parts; user k adds Gaussian noise of variance 0.1·k/K; planned on histograms of values",
            skew="80 % of users hold one class; Shakespeare: users are roles, planned on histograms of characters",
        ),
        verdicts=_verdicts({panel: panels[panel] for panel in there}),
        notes=tuple(
            f"{PANELS[panel]}: not run; fedcast reproduce fig4 --scale full trains it and redoes nothing else."
            for panel in PANELS
            if panel not in there
        ),
    )


def by_rule(runs: list[Trained]) -> dict[str, list[Trained]]:
    """Runs of each strategy, in the order of `STRATEGIES`."""
    found = {rule: [run for run in runs if run.rule == rule] for rule in STRATEGIES}
    return {rule: some for rule, some in found.items() if some}


def _end(runs: list[Trained]) -> dict[str, float | int | None]:
    accuracy, loss = mean_of(run.accuracy for run in runs), mean_of(run.curve("test_loss")[-1] for run in runs)
    worst = mean_of(run.curve("worst_accuracy")[-1] for run in runs)
    noisy = mean_of(run.curve(NOISY)[-1] for run in runs) if all(NOISY in run.curves for run in runs) else None
    return {
        "seeds": accuracy.seeds,
        "rounds": len(runs[0].curve("accuracy")) - 1,
        "accuracy": accuracy.mean,
        "accuracy_half_width": accuracy.half_width,
        "late_accuracy": mean_of(late_accuracy(run) for run in runs).mean,
        "loss": loss.mean,
        "worst_accuracy": worst.mean,
        "noisy_accuracy": noisy and noisy.mean,
        "noisy_accuracy_half_width": noisy and noisy.half_width,
        "emd_after": mean_of(run.facts["emd_after"] for run in runs).mean,
        "received_samples": mean_of(run.facts["received_samples"] for run in runs).mean,
    }


def _verdicts(panels: dict[str, list[Trained]]) -> tuple[Verdict, ...]:
    found = []
    for panel, runs in panels.items():
        found += ahead_verdicts(runs, "daca", ["none", "scc", "cec"], f" on {PANELS[panel]}")
        if panel in ("cifar10", "noise"):
            found += ahead_verdicts(runs, "daca", ["central"], f" on {PANELS[panel]}", NOT_WORSE)
    gains = {panel: gains_over(runs, "daca") for panel, runs in panels.items()}
    return (*found, *larger_gain(gains), *_shakespeare(gains.get("shakespeare")))


def _shakespeare(gains: list[float] | None) -> list[Verdict]:
    """Whether DACA gains as much as in the paper: partly, if at least half of it."""
    if not gains:
        return []
    gain = mean_of(gains)
    return [
        Verdict(
            f"DACA gains {PAPER_SHAKESPEARE_GAIN:g} points on Shakespeare",
            "yes"
            if gain.mean >= PAPER_SHAKESPEARE_GAIN
            else "partly"
            if gain.mean >= PAPER_SHAKESPEARE_GAIN / 2
            else "no",
            f"DACA over FedAvg: {mean_text(gains, '+z.2f')} points, {pluralize(gain.seeds, 'seed')}",
        )
    ]


def draw(result: Result) -> Figure:
    """A column for each dataset: loss, accuracy, and how far above FedAvg, seed by seed and with intervals."""
    courses, gains = result.tables["courses"], result.tables["gains"]
    panels = [panel for panel in PANELS if panel in courses["panel"]]
    figure = new_figure(3.4 * len(panels) + 0.6, 8.0)
    for axes, panel in zip(figure.subplots(3, len(panels), squeeze=False).T, panels, strict=True):
        rows = where(courses, panel=panel)
        draw_courses(axes[0], rows, "loss", "rule", STRATEGIES, COLOURS, bands=False)
        draw_courses(axes[1], rows, "accuracy", "rule", STRATEGIES, COLOURS, bands=False)
        draw_courses(axes[2], after_start(where(gains, panel=panel)), "gain", "rule", STRATEGIES, COLOURS)
        log_loss(axes[0])
        zoom_to_end(axes[1], rows, "accuracy")
        axes[2].set_xlim(axes[0].get_xlim())
        seeds = seeds_told(where(result.tables["ends"], panel=panel)["seeds"])
        dress(axes[0], title=f"{PANELS[panel]}\n{seeds}", y="loss")
        dress(axes[1], y="accuracy")
        dress(axes[2], x="round", y="points above FedAvg")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8.5)
    return figure
