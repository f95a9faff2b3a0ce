"""Beyond the paper: which measure of skew predicts the rounds, and what weight of the shift follows for `blend`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedcast.formatting import pluralize
from fedcast.report.figures.palette import colour
from fedcast.scenario import Scenario, load_scenario
from fedcast_paper import fig4, table2
from fedcast_paper.beyond_rounds import setting_scenarios
from fedcast_paper.drawing import dress, legend, new_figure
from fedcast_paper.gains import answer
from fedcast_paper.job import Job
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.regression import Explained, explain_rounds
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.settings import (
    DIRICHLET,
    RATIO,
    TARGET,
    assumptions,
    label_skew,
    scenario,
    shared_by,
    target_of,
    task,
)
from fedcast_paper.trained import Trained, trained_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "The paper takes the average EMD as what decides the rounds, and tries no other measure."
MEASURES = {
    "emd_after_a": "EMD, weights A",
    "emd_after_b": "EMD, weights B",
    "emd_after_c": "EMD, weights C",
    "kl_after": "KL",
    "js_after": "JS",
    "shift": "shift",
    "thousand_samples": "distinct shared samples",
}
# Accuracy whose first round counts; under Dirichlet skew 95 % is passed within a few rounds.
TARGETS = {"label_skew": 0.95, "dirichlet": 0.97}
# A rule chooses among clusterings: what FedAvg and the server's broadcast come to does not help it.
LEFT_OUT: dict[str, tuple[str, ...]] = {"all": (), "clusterings": ("none", "central")}
WEIGHTS = (0.0, 0.3, 1.0, 3.0, 10.0)
HELD_OUT_SEEDS = (5, 6, 7)
HELD_OUT_TARGETS = {"mnist": TARGET, "digits": 0.85}
# Of 14 samples a tenth would be one.
DIGITS_RATIO = 0.5
_DEFAULT_WEIGHT = 1.0
_HELD_OUT_NAMES = {"mnist": "MNIST, to 95 %", "digits": "digits, to 85 %"}


def scenarios(job: Job) -> list[Scenario]:
    """All runs on MNIST of the other figures that differ in sharing, and blend on seeds that those do not use."""
    return fitted_scenarios(job) + held_out_scenarios(job, "mnist")


def fitted_scenarios(job: Job) -> list[Scenario]:
    """Label skew at 80 and 100 %, and Dirichlet skew at two ratios."""
    dirichlet = [
        run
        for alpha in DIRICHLET
        for ratio in (RATIO, table2.HALF_RATIO)
        for run in table2.cell_scenarios(job, "mnist", alpha, ratio)
    ]
    return fig4.panel_scenarios(job, "mnist") + setting_scenarios(job, "100 % one-class") + dirichlet


def held_out_scenarios(job: Job, dataset: str) -> list[Scenario]:
    """Blend under several weights of the shift, on seeds and a dataset from which nothing was fitted."""
    seeds = job.sized(smoke=HELD_OUT_SEEDS[:1], full=HELD_OUT_SEEDS)
    ratio = RATIO if dataset == "mnist" else DIGITS_RATIO
    changes = [
        (*label_skew(), *shared_by("blend", ratio), f"clustering.shift_weight={weight}", f"seed={seed}")
        for weight in WEIGHTS
        for seed in seeds
    ]
    if dataset == "mnist":
        return [scenario(job, *task(job, "mnist"), *some) for some in changes]
    size = job.sized(smoke=task(job, "mnist"), full=("allocation.method=fixed",))
    return [load_scenario(base="digits", overrides=[*size, *some]) for some in changes]


def data(job: Job) -> Result:
    """Regressions over all runs, and rounds on held-out data for each weight of the shift."""
    runs = trained_runs(job, fitted_scenarios(job))
    met = [run for run in runs if _rounds(job, run)]
    found = {group: _regressions(job, [run for run in met if run.rule not in out]) for group, out in LEFT_OUT.items()}
    weight = shift_weight(found["clusterings"]["js_after + shift"])
    checked = {dataset: _held_out_runs(job, dataset) for dataset in HELD_OUT_TARGETS}
    return Result(
        tables={
            "measures": columns_of(
                {"runs": group, **_measure_row(one)} for group, some in found.items() for one in some.values()
            ),
            "runs": columns_of(_run_row(job, run) for run in met),
            "weights": columns_of(row for dataset, some in checked.items() for row in _weight_rows(job, dataset, some)),
        },
        scenario=runs[0].scenario.model_dump(mode="json"),
        assumptions=assumptions(
            job, runs,
            regression="log of the first round at 95 % (label skew) or 97 % (Dirichlet), centred on the mean of runs "
            f"with the same users, data and ratio; {len(runs) - len(met)} of {len(runs)} runs never met it and are "
            "left out",
            unseen="each seed predicted from the others",
            held_out=f"seeds {', '.join(map(str, HELD_OUT_SEEDS))}: rounds to 95 % on MNIST, 10 % shared, and to "
            f"85 % on digits with its own preset, {DIGITS_RATIO:.0%} shared",
        ),
        notes=(
            f"λ, the weight of the shift beside JS in blend, from the regression on both among clusterings: "
            f"{_said(weight)}; the default is {_DEFAULT_WEIGHT:g}.",
        ),
        verdicts=(
            _verdict(found["all"], found["clusterings"]),
            *(verdict for dataset, some in checked.items() for verdict in _better_weight(job, dataset, some)),
        ),
    )  # fmt: skip


def shift_weight(fit: Explained) -> float | None:
    """The weight of the shift beside JS that ranks as the regression does; None if a slope has the wrong sign."""
    js, shift = fit.slopes
    return float(shift / js) if js > 0 and shift >= 0 else None


def _said(weight: float | None) -> str:
    return "none, a slope has the wrong sign" if weight is None else f"{weight:.2f}"


def _rounds(job: Job, run: Trained) -> int | None:
    return run.rounds_to(target_of(job, TARGETS[run.scenario.data.partition]))


def _values(run: Trained) -> dict[str, float]:
    samples = run.facts["distinct_samples"] / 1000
    return {name: samples if name == "thousand_samples" else run.facts[name] for name in MEASURES}


def _group(run: Trained) -> tuple[Any, ...]:
    """Runs with the same users, data and ratio: what differs between them is who shares what with whom."""
    data = run.scenario.data
    skew = data.alpha if data.partition == "dirichlet" else data.single_class_share
    return data.partition, skew, run.seed, run.scenario.allocation.fixed_ratio


def _regressions(job: Job, runs: list[Trained]) -> dict[str, Explained]:
    names = [(name,) for name in MEASURES] + [(name, "shift") for name in MEASURES if name != "shift"]
    values, groups = [_values(run) for run in runs], [_group(run) for run in runs]
    rounds, seeds = [float(_rounds(job, run) or 0) for run in runs], [run.seed for run in runs]
    return {" + ".join(some): explain_rounds(values, rounds, groups, seeds, some) for some in names}


def _measure_row(found: Explained) -> dict[str, Any]:
    return {
        "measures": " + ".join(MEASURES[name] for name in found.names),
        "explained": found.explained,
        "explained_unseen": found.explained_unseen,
        "slopes": ", ".join(f"{slope:.4g}" for slope in found.slopes),
    }


def _run_row(job: Job, run: Trained) -> dict[str, Any]:
    partition, skew, seed, ratio = _group(run)
    labels = {"partition": partition, "skew": skew, "seed": seed, "rule": run.rule, "ratio": ratio}
    return {**labels, **_values(run), "rounds": _rounds(job, run)}


def _held_out_runs(job: Job, dataset: str) -> list[Trained]:
    # Digits train in seconds on any machine.
    here = job if dataset == "mnist" else replace(job, only_finished=False)
    return trained_runs(here, held_out_scenarios(job, dataset), some=False)


def _weight_rows(job: Job, dataset: str, runs: list[Trained]) -> Iterator[dict[str, Any]]:
    target = target_of(job, HELD_OUT_TARGETS[dataset])
    for weight, some in _by_weight(runs).items():
        met = [number for run in some if (number := run.rounds_to(target)) is not None]
        row = {"dataset": dataset, "weight": weight, "seeds": len(some), "reached": len(met)}
        ends = mean_of(run.accuracy for run in some).mean if some else None
        yield {**row, "rounds": mean_of(met).mean if met else None, "accuracy": ends}


def _by_weight(runs: list[Trained]) -> dict[float, list[Trained]]:
    return {weight: [run for run in runs if run.scenario.clustering.shift_weight == weight] for weight in WEIGHTS}


def _better_weight(job: Job, dataset: str, runs: list[Trained]) -> list[Verdict]:
    """Whether some weight reaches the target in fewer rounds than 1 does, by a paired test over held-out seeds."""
    from fedcast.runs.comparison import paired_test

    target = target_of(job, HELD_OUT_TARGETS[dataset])
    rounds = {weight: [run.rounds_to(target) for run in some] for weight, some in _by_weight(runs).items()}
    met = {weight: [float(x) for x in some if x is not None] for weight, some in rounds.items()}
    if not runs or any(len(met[weight]) < len(rounds[weight]) for weight in WEIGHTS):
        return []
    usual = met.pop(_DEFAULT_WEIGHT)
    answers = [
        answer(mean_of(usual).mean - mean_of(some).mean, paired_test(usual, some).p_value) for some in met.values()
    ]
    means = ", ".join(f"{mean_of(some).mean:.1f} at {weight:g}" for weight, some in met.items())
    return [
        Verdict(
            f"another weight λ of the shift than {_DEFAULT_WEIGHT:g} would serve blend better on held-out {dataset}",
            "yes" if "yes" in answers else "no" if set(answers) == {"no"} else "open",
            f"mean rounds {mean_of(usual).mean:.1f} at {_DEFAULT_WEIGHT:g}, {means}, {pluralize(len(usual), 'seed')}",
        )
    ]


def _verdict(every: dict[str, Explained], clusterings: dict[str, Explained]) -> Verdict:
    """Whether no other measure tells more of a seed that was not seen; partly if EMD tells at least half as much."""
    best = _best(every)
    emd = every["emd_after_b"].explained_unseen
    return Verdict(
        "the average EMD is what decides the rounds",
        "yes" if best.explained_unseen <= emd else "partly" if emd > best.explained_unseen / 2 else "no",
        "share of the variance of log rounds explained on an unseen seed, users, data and ratio being the same: over "
        f"all runs {_told(every)}; among clusterings {_told(clusterings)}",
    )


def _best(found: dict[str, Explained]) -> Explained:
    return max(found.values(), key=lambda one: one.explained_unseen)


def _told(found: dict[str, Explained]) -> str:
    best = _best(found)
    names = " + ".join(MEASURES[name] for name in best.names)
    return f"EMD {found['emd_after_b'].explained_unseen:.0%}, {names} {best.explained_unseen:.0%}"


def draw(result: Result) -> Figure:
    """Variance explained by each measure, alone and with the shift; and held-out rounds against the weight."""
    measures, weights = result.tables["measures"], result.tables["weights"]
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    _draw_measures(left, measures)
    for place, dataset in enumerate(("mnist", "digits"), start=1):
        rows = where(weights, dataset=dataset)
        known = [(weight, number) for weight, number in zip(rows["weight"], rows["rounds"], strict=True) if number]
        if known:
            right.plot(*zip(*known, strict=True), marker="o", color=colour(place), label=_HELD_OUT_NAMES[dataset])
    right.set_ylim(0, 1.15 * max([number for number in weights["rounds"] if number], default=1))
    right.set_xscale("symlog", linthresh=0.3)
    right.set_xlim(-0.05, 14)
    right.set_xticks(WEIGHTS, [f"{weight:g}" for weight in WEIGHTS])
    dress(right, title="blend on held-out seeds: rounds to the target", x="weight λ of the shift")
    legend(right)
    return figure


def _draw_measures(axes: Any, measures: Columns) -> None:
    every = where(measures, runs="all")
    order = sorted(range(len(every["measures"])), key=lambda row: every["explained_unseen"][row])
    for place, group in enumerate(LEFT_OUT):
        shares = where(measures, runs=group)["explained_unseen"]
        at = [row + 0.2 - 0.4 * place for row in range(len(order))]
        axes.barh(at, [shares[row] for row in order], color=colour(place), height=0.38, label=group)
    axes.set_yticks(range(len(order)), [every["measures"][row] for row in order])
    dress(axes, title="variance of log rounds explained on a seed not seen", x="share")
    legend(axes, loc="lower right")
