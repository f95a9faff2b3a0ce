"""Fig. 1a: learning curves at several degrees of skew."""

from __future__ import annotations

from fedcast.report import Figure
from fedcast.scenario import Scenario
from fedcast_paper.figure_parts import loss_and_accuracy
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import curve_rows, mean_loss, mean_of, run_row
from fedcast_paper.reproduction_result import Result, Verdict, columns_of
from fedcast_paper.text_tables import Row, by_label
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.training_setting import assumptions, label_skew, scenario, shared_by, target_of, task
from fedcast_paper.verdicts import rank_correlation

PAPER = "The smaller the average EMD, the faster the training loss falls and the higher the accuracy ends."
WHY = (
    "It agrees with the paper: the more users hold one class, the more their models differ after a round, until most "
    "users hold one class (beyond-drift)."
)
SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
# Of the colour map viridis, for lines that have an order.
_LIGHT_TO_DARK = ("#b0dd2f", "#54c568", "#21a585", "#26828e", "#355e8d", "#46337f", "#440154")


def scenarios(job: Job) -> list[Scenario]:
    """Return runs of FedAvg with an increasing fraction of one-class users."""
    seeds = job.seeds_or(smoke=1, full=5)
    return [
        scenario(job, *task(job, "mnist", *label_skew(share), *shared_by("none")), f"seed={seed}")
        for share in SHARES
        for seed in seeds
    ]


def data(job: Job) -> Result:
    """Compute loss and accuracy by round, and the end of each run."""
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
                for row in curve_rows(runs, one_class_share=share, emd=mean_of(emd_of(run) for run in runs).mean)
            ),
            "runs": columns_of(rows),
        },
        scenario=asked[0].model_dump(mode="json"),
        assumptions=assumptions(job, trained, sharing="nothing is shared", skew="0 to 100 % of users hold one class"),
        verdicts=(_verdict(trained),),
        notes=(
            "The loss is that of the global model on the test set. The local training loss, which is stored too, says "
            "little under skew: a user with one class fits it at once.",
        ),
    )


def by_one_class_share(runs: list[Trained]) -> dict[float, list[Trained]]:
    """Return the runs for each fraction of one-class users."""
    share_of = {id(run): run.scenario.data.options("partition").single_class_share for run in runs}
    return {share: [run for run in runs if share_of[id(run)] == share] for share in sorted(set(share_of.values()))}


def emd_of(run: Trained) -> float:
    """Return the average EMD after sharing."""
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
    """Draw loss and accuracy by round, a line for each degree of skew."""
    curves = result.tables["courses"]
    emds = dict(zip(curves["one_class_share"], curves["emd"], strict=True))
    names = {share: f"EMD {emd:.2f}" for share, emd in emds.items()}
    return loss_and_accuracy(curves, "one_class_share", names, dict(zip(emds, _LIGHT_TO_DARK, strict=False)))


def summary(result: Result) -> list[Row]:
    """Return a row for each fraction of one-class users."""
    return by_label(result, "one_class_share", "one-class users", lambda share: f"{share:.0%}")


REPRODUCTION = Reproduction(
    "training at several degrees of skew", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary
)
