"""Fig. 1a: the course of training at several degrees of skew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.scenario import Scenario
from fedcast_paper.courses import draw_courses, log_loss
from fedcast_paper.drawing import dress, legend, new_figure, sequence
from fedcast_paper.job import Job
from fedcast_paper.measures import rank_correlation
from fedcast_paper.over_seeds import course_rows, mean_loss, mean_of, run_row
from fedcast_paper.result import Result, Verdict, columns_of
from fedcast_paper.settings import assumptions, label_skew, scenario, shared_by, target_of, task
from fedcast_paper.trained import Trained, trained_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "The smaller the average EMD, the faster the training loss falls and the higher the accuracy ends."
SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)


def scenarios(job: Job) -> list[Scenario]:
    """Plain FedAvg with ever more users of one class."""
    seeds = job.seeds_or(smoke=1, full=5)
    return [
        scenario(job, *task(job, "mnist", *label_skew(share), *shared_by("none")), f"seed={seed}")
        for share in SHARES
        for seed in seeds
    ]


def data(job: Job) -> Result:
    """Loss and accuracy round by round, and where each run ended."""
    asked = scenarios(job)
    trained = trained_runs(job, asked)
    by_share = by_one_class_share(trained)
    target = target_of(job)
    rows = [
        run_row(run, one_class_share=share, mean_loss=mean_loss(run), rounds=run.rounds_to(target))
        for share, runs in by_share.items()
        for run in runs
    ]
    return Result(
        tables={
            "courses": columns_of(
                row
                for share, runs in by_share.items()
                for row in course_rows(runs, one_class_share=share, emd=mean_of(emd_of(run) for run in runs).mean)
            ),
            "runs": columns_of(rows),
        },
        scenario=asked[0].model_dump(mode="json"),
        assumptions=assumptions(job, trained, sharing="nothing is shared", skew="0 to 100 % of users hold one class"),
        verdicts=(_verdict(trained),),
        notes=(
            "The loss is the global model's on the test set. The loss of local steps, stored beside it, says little "
            "under skew: a user of one class fits it at once.",
        ),
    )


def by_one_class_share(runs: list[Trained]) -> dict[float, list[Trained]]:
    """Runs of each share of one-class users."""
    shares = sorted({run.scenario.data.single_class_share for run in runs})
    return {share: [run for run in runs if run.scenario.data.single_class_share == share] for share in shares}


def emd_of(run: Trained) -> float:
    """The skew that it trained under."""
    return run.facts["emd_after"]


def _verdict(runs: list[Trained]) -> Verdict:
    emds = [emd_of(run) for run in runs]
    loss = rank_correlation(emds, [mean_loss(run) for run in runs])
    accuracy = rank_correlation(emds, [-run.accuracy for run in runs])
    return Verdict(
        "a lower average EMD converges faster and ends at a higher accuracy",
        "yes" if loss.rises and accuracy.rises else "partly" if loss.rises or accuracy.rises else "no",
        f"rank correlation of the average EMD with the mean loss over all rounds {loss}, with the final error "
        f"{accuracy}, {len(runs)} runs",
    )


def draw(result: Result) -> Figure:
    """Loss and accuracy against rounds, a line for each skew."""
    courses = result.tables["courses"]
    emds = dict(zip(courses["one_class_share"], courses["emd"], strict=True))
    names = {share: f"EMD {emd:.2f}" for share, emd in emds.items()}
    colours = dict(zip(emds, sequence(len(emds)), strict=True))
    figure = new_figure(9.6, 3.6)
    left, right = figure.subplots(1, 2)
    draw_courses(left, courses, "loss", "one_class_share", names, colours)
    draw_courses(right, courses, "accuracy", "one_class_share", names, colours)
    log_loss(left)
    dress(left, title="loss of the global model on the test set", x="round")
    dress(right, title="accuracy", x="round")
    legend(right)
    return figure
