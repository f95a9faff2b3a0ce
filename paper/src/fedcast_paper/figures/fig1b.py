"""Fig. 1b: learning curves at sharing ratios of 0, 5 and 10 %, in random clusters."""

from __future__ import annotations

from collections.abc import Mapping

from fedcast.report import Figure
from fedcast.scenario import Scenario
from fedcast_paper.figure_parts import loss_and_accuracy
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import curve_rows, mean_loss, mean_of, run_row
from fedcast_paper.reproduction_result import Result, Verdict, columns_of
from fedcast_paper.text_tables import Row, by_label, percent
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.training_setting import (
    EVERYBODY_LINKED,
    assumptions,
    label_skew,
    scenario,
    shared_by,
    target_of,
    task,
    under_rules,
)
from fedcast_paper.verdicts import verdict_of

PAPER = "More shared data converge faster, and the step from 0 to 0.05 gains more than that from 0.05 to 0.1."
WHY = "It agrees with the paper: the first shared samples help most."
RATIOS = (0.05, 0.1)
CLUSTERS = 10


def scenarios(job: Job) -> list[Scenario]:
    """Return runs without sharing, and at two ratios in the same number of random clusters."""
    seeds = job.seeds_or(smoke=1, full=5)
    without = under_rules(job, task(job, "mnist", *label_skew()), ["none"], seeds)
    clusters = job.sized(smoke=3, full=CLUSTERS)
    return without + [run for ratio in RATIOS for run in random_clusters(job, clusters, ratio, seeds)]


def random_clusters(job: Job, clusters: int, ratio: float, seeds: tuple[int, ...]) -> list[Scenario]:
    """Return runs with random heads and members, where all users reach each other."""
    changes = (
        *label_skew(),
        *EVERYBODY_LINKED,
        *shared_by("random", ratio),
        f"clustering.random.num_clusters={clusters}",
    )
    return [scenario(job, *task(job, "mnist", *changes), f"seed={seed}") for seed in seeds]


def data(job: Job) -> Result:
    """Compute loss and accuracy by round for each ratio."""
    asked = scenarios(job)
    runs = trained_runs(job, asked)
    by_ratio = {ratio: [run for run in runs if ratio_of(run) == ratio] for ratio in (0.0, *RATIOS)}
    sharing = "random clusters of one head each; a head sends a random sample of its data, as large as the ratio"
    return result_of_groups(job, asked, "ratio", by_ratio, sharing, _verdicts(by_ratio))


def result_of_groups(
    job: Job,
    asked: list[Scenario],
    label: str,
    groups: Mapping[int, list[Trained]] | Mapping[float, list[Trained]],
    sharing: str,
    verdicts: tuple[Verdict, ...],
) -> Result:
    """Return the result of runs in random clusters, grouped by their value of the label."""
    runs = [run for some in groups.values() for run in some]
    target = target_of(job)
    return Result(
        tables={
            "courses": columns_of(
                row for value, some in groups.items() if some for row in curve_rows(some, **{label: value})
            ),
            "runs": columns_of(
                run_row(run, **{label: value}, mean_loss=mean_loss(run), rounds=run.rounds_to(target))
                for value, some in groups.items()
                for run in some
            ),
        },
        scenario=asked[0].model_dump(mode="json"),
        assumptions=assumptions(job, runs, network="all users reach and trust each other", sharing=sharing),
        verdicts=verdicts,
    )


def ratio_of(run: Trained) -> float:
    """Return the sharing ratio of a run; 0 without clusters."""
    return 0.0 if run.rule == "none" else run.scenario.allocation.options("allocation", "fixed").ratio


def _verdicts(by_ratio: dict[float, list[Trained]]) -> tuple[Verdict, ...]:
    """Judge by a paired test of the two steps over common seeds."""
    from fedcast.runs import paired_test

    losses = [{run.seed: mean_loss(run) for run in runs} for runs in by_ratio.values()]
    common = [[by_seed[seed] for by_seed in losses] for seed in losses[0] if all(seed in some for some in losses)]
    if not common:
        return ()
    first = [nothing - some for nothing, some, _ in common]
    second = [some - more for _, some, more in common]
    test = paired_test(first, second)
    return (
        verdict_of(
            "sharing 0 to 0.05 gains more than 0.05 to 0.1",
            test,
            1,
            "+z.3f",
            "more",
            f"mean loss over all rounds falls by {mean_of(first)} from 0 to 0.05 and by {mean_of(second)} from 0.05 to "
            "0.1; the first step gains ",
        ),
    )


def draw(result: Result) -> Figure:
    """Draw loss and accuracy by round, a line for each ratio."""
    return draw_groups(result, "ratio", {ratio: f"{percent(ratio)} shared" for ratio in (0.0, *RATIOS)})


def draw_groups(result: Result, label: str, names: dict[float, str]) -> Figure:
    """Draw loss and accuracy side by side, a line for each value of the label."""
    return loss_and_accuracy(
        result.tables["courses"], label, names, {value: place for place, value in enumerate(names)}
    )


def summary(result: Result) -> list[Row]:
    """Return a row for each ratio."""
    return by_label(result, "ratio", "shared", lambda ratio: f"{ratio:.0%}")


REPRODUCTION = Reproduction(
    "training with 0, 5, 10 % shared", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary
)
