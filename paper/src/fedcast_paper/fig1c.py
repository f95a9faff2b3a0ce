"""Fig. 1c: the course of training in 10 and in 25 random clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.formatting import pluralize
from fedcast.scenario import Scenario
from fedcast_paper.fig1b import draw_pair, random_clusters, result_of_groups
from fedcast_paper.gains import answer, evidence
from fedcast_paper.job import Job
from fedcast_paper.over_seeds import differences, mean_loss
from fedcast_paper.result import Result, Verdict
from fedcast_paper.settings import RATIO, label_skew, task, under_rules
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "10 random clusters converge faster than 25: too many clusters can do more harm than good."


def scenarios(job: Job) -> list[Scenario]:
    """Nothing shared, and two numbers of random clusters."""
    seeds = job.seeds_or(smoke=1, full=5)
    without = under_rules(job, task(job, "mnist", *label_skew()), ["none"], seeds)
    return without + [run for number in _numbers(job) for run in random_clusters(job, number, RATIO, seeds)]


def data(job: Job) -> Result:
    """Loss and accuracy round by round for each number of clusters."""
    asked = scenarios(job)
    runs = trained_runs(job, asked)
    few, many = _numbers(job)
    by_number = {number: [run for run in runs if _clusters(run) == number] for number in (0, few, many)}
    sharing = f"random clusters of one head each; a head sends a random {percent(RATIO)} of its samples"
    return result_of_groups(job, asked, "clusters", by_number, sharing, _verdicts(by_number, few, many))


def _numbers(job: Job) -> tuple[int, int]:
    return job.sized(smoke=(3, 6), full=(10, 25))


def _clusters(run: Trained) -> int:
    return 0 if run.rule == "none" else run.scenario.clustering.num_clusters


def _verdicts(by_number: dict[int, list[Trained]], few: int, many: int) -> tuple[Verdict, ...]:
    """By a paired test over seeds."""
    from fedcast.runs.comparison import paired_test

    gaps = differences(by_number[many], by_number[few], mean_loss)
    if not gaps:
        return ()
    test = paired_test(gaps, [0.0] * len(gaps))
    better = f"{few} are better in {sum(gap > 0 for gap in gaps)} of {pluralize(len(gaps), 'seed')}"
    return (
        Verdict(
            f"{few} clusters beat {many}",
            answer(test.difference.mean, test.p_value),
            f"mean loss over all rounds, {many} minus {few} clusters: {evidence(test, '+z.3f', 'of loss')}; {better}",
        ),
    )


def draw(result: Result) -> Figure:
    """Loss and accuracy against rounds, a line for each number of clusters."""
    numbers = sorted(set(result.tables["courses"]["clusters"]))
    return draw_pair(result, "clusters", {number: f"{number} clusters" if number else "FedAvg" for number in numbers})
