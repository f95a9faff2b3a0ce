"""Fig. 1c: learning curves in 10 and in 25 random clusters."""

from __future__ import annotations

from fedcast.formatting import pluralize
from fedcast.report import Figure
from fedcast.scenario import Scenario
from fedcast_paper.figures.fig1b import draw_groups, random_clusters, result_of_groups
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import differences, mean_loss
from fedcast_paper.reproduction_result import Result, Verdict
from fedcast_paper.text_tables import Row, by_label, percent
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.training_setting import RATIO, label_skew, task, under_rules
from fedcast_paper.verdicts import verdict_of

PAPER = "10 random clusters converge faster than 25: too many clusters can do more harm than good."
WHY = (
    "With fewer heads more users are members, which lowers the EMD, but the classes of so few heads shift the global "
    "label distribution more; here neither effect dominates. The paper reports neither the shared volume nor the "
    "number of runs."
)


def scenarios(job: Job) -> list[Scenario]:
    """Return runs without sharing, and with two numbers of random clusters."""
    seeds = job.seeds_or(smoke=1, full=5)
    without = under_rules(job, task(job, "mnist", *label_skew()), ["none"], seeds)
    return without + [run for number in _numbers(job) for run in random_clusters(job, number, RATIO, seeds)]


def data(job: Job) -> Result:
    """Compute loss and accuracy by round for each number of clusters."""
    asked = scenarios(job)
    runs = trained_runs(job, asked)
    few, many = _numbers(job)
    by_number = {number: [run for run in runs if _clusters(run) == number] for number in (0, few, many)}
    sharing = f"random clusters of one head each; a head sends a random {percent(RATIO)} of its samples"
    return result_of_groups(job, asked, "clusters", by_number, sharing, _verdicts(by_number, few, many))


def _numbers(job: Job) -> tuple[int, int]:
    return job.sized(smoke=(3, 6), full=(10, 25))


def _clusters(run: Trained) -> int:
    return 0 if run.rule == "none" else run.scenario.clustering.options("clustering").num_clusters


def _verdicts(by_number: dict[int, list[Trained]], few: int, many: int) -> tuple[Verdict, ...]:
    """Judge by a paired test over seeds."""
    from fedcast.runs import paired_test

    gaps = differences(by_number[many], by_number[few], mean_loss)
    if not gaps:
        return ()
    test = paired_test(gaps, [0.0] * len(gaps))
    better = f"{few} are better in {sum(gap > 0 for gap in gaps)} of {pluralize(len(gaps), 'seed')}"
    return (
        verdict_of(
            f"{few} clusters beat {many}",
            test,
            1,
            "+z.3f",
            "of loss",
            f"{better}; mean loss over all rounds, {many} minus {few} clusters: ",
        ),
    )


def draw(result: Result) -> Figure:
    """Draw loss and accuracy by round, a line for each number of clusters."""
    numbers = sorted(set(result.tables["courses"]["clusters"]))
    return draw_groups(result, "clusters", {number: f"{number} clusters" if number else "FedAvg" for number in numbers})


def summary(result: Result) -> list[Row]:
    """Return a row for each number of clusters."""
    return by_label(result, "clusters", "clusters", lambda clusters: str(clusters or "none"))


REPRODUCTION = Reproduction(
    "training in 10 and 25 clusters", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary
)
