"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedcast.formatting import pluralize
from fedcast_paper.figures.fig7a import ITERATIONS
from fedcast_paper.figures.table2 import PRINTED
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import RIVALS
from fedcast_paper.reproduction_result import Columns, Result, columns_of, where
from fedcast_paper.text_tables import Row, markdown_table, number, percent, rows_of, unbroken
from fedcast_paper.training_setting import DATASETS, STRATEGIES
from fedcast_paper.verdicts import excess_over_jfvo, listed
from fedcast_paper.volume_tables import FIRST_RATE, JUDGED, points_above
from fedcast_paper.volumes import PLAN, PLAN_RATE, SECOND_CONTROL, Place

# The volumes that findings name.
_SHARED = {"10 %": "a tenth", "all": "all", "JFVO": "JFVO"}
_DATASETS = ("mnist", "cifar10")
_SKEW = "Dir 0.1"
# The strategies of the paper that share, with which it compares DACA.
_OTHERS = ("scc", "cec", "central")


def findings(stored: Mapping[str, Result]) -> list[str]:
    """Return a few sentences for each finding whose results are stored and have what the finding compares."""
    texts = [text(*(stored[name] for name in names)) for names, text in _FINDINGS if set(names) <= stored.keys()]
    return [text for text in texts if text]


def _rounds(fig1a: Result, beyond_rounds: Result) -> str:
    """Say how many rounds skew costs, and how many of them sharing saves."""
    runs, strategies = fig1a.tables["runs"], beyond_rounds.tables["strategies"]
    alike, skewed = (mean_of(where(runs, one_class_share=share)["rounds"]).mean for share in (0.0, 0.8))
    rows = {row["rule"]: row for row in rows_of(where(strategies, setting="80 % one-class"))}
    speed = {rule: row["speed_up"] for rule, row in rows.items() if rule != "none"}
    fastest, slowest = max(speed, key=lambda rule: speed[rule]), min(speed, key=lambda rule: speed[rule])
    return (
        "**Skew costs rounds, and sharing saves some of them.** On MNIST with one local epoch FedAvg needs "
        f"{alike:.0f} rounds to 95 % if users are alike and {skewed:.0f} if 80 % of them hold one class (fig1a). If "
        f"heads then share a tenth of their samples, DACA needs {rows['daca']['rounds']:.0f}, and all strategies are "
        f"faster than FedAvg in simulated time, by {speed[slowest]:.2f} ({STRATEGIES[slowest]}) to "
        f"{speed[fastest]:.2f} times ({STRATEGIES[fastest]}).{_one_class(strategies)}{_dirichlet(beyond_rounds)} More "
        "local epochs and a larger learning rate save more rounds without sharing; `studies/preset` measures what "
        "sharing still gains against them (beyond-rounds)."
    )


def _one_class(strategies: Columns) -> str:
    """Say who reaches the target if all users hold one class, where FedAvg does not."""
    rows = {row["rule"]: row for row in rows_of(where(strategies, setting="100 % one-class"))}
    if not {"none", "daca"} <= rows.keys() or rows["none"]["reached"]:
        return ""
    met = {rule: row["rounds"] for rule, row in rows.items() if row["reached"] == row["seeds"]}
    fastest = min(met, key=lambda rule: met[rule])
    return (
        " If all users hold one class, FedAvg does not get there within 100 rounds; the strategies do, in "
        f"{met[fastest]:.0f} ({STRATEGIES[fastest]}) to {max(met.values()):.0f} rounds "
        f"({STRATEGIES[max(met, key=lambda rule: met[rule])]}; {pluralize(rows['none']['seeds'], 'seed')})."
    )


def _dirichlet(beyond_rounds: Result) -> str:
    """Say how many rounds DACA saves at Dir 0.1 by the volume that heads share."""
    strategies, texts, fedavg = beyond_rounds.tables["strategies"], [], None
    for setting, shared in (("Dir 0.1", "a tenth"), ("Dir 0.1, JFVO", "JFVO's volumes"), ("Dir 0.1, all", "all")):
        rows = {row["rule"]: row for row in rows_of(where(strategies, setting=setting))}
        if not {"none", "daca"} <= rows.keys() or rows["daca"]["saved_rounds"] is None:
            return ""
        claim = f"DACA needs fewer rounds than FedAvg at {setting}"
        (verdict,) = (verdict for verdict in beyond_rounds.verdicts if verdict.claim == claim)
        saved = number(rows["daca"]["saved_rounds"], ".1f", rows["daca"]["saved_rounds_half_width"])
        not_clear = "" if verdict.holds == "yes" else "not significant, "
        fedavg = rows["none"]["rounds"]
        texts.append(f"{saved} fewer with {shared} ({not_clear}{rows['daca']['speed_up']:.2f} times faster)")
    return f" At Dir 0.1 FedAvg needs {fedavg:.0f} rounds to 97 %, and DACA {', '.join(texts)}."


def _accuracy(table2: Result) -> str:
    """Compare the gain of DACA in final accuracy at several volumes with the paper's."""
    cells, runs = (where(table2.tables[name], partition=_SKEW) for name in ("cells", "runs"))
    daca = _daca(cells)
    if not daca:
        return ""
    rows = [_gain_row(row, table2) for row in daca.values()]
    note = (
        f"; \\{FIRST_RATE}: at another learning rate than the other rows of CIFAR-10"
        if any(row["first_rate"] for row in daca.values())
        else ""
    )
    return (
        "**Final accuracy gains less than in the paper on MNIST; on CIFAR-10 the mean gain over three seeds is near "
        "the paper's if heads share nearly all they hold, but not settled.** Points at Dir 0.1 (table2; bold: "
        f"significant after correction; three seeds are not tested{note}):\n\n{_indented(rows)}\n\n  "
        f"{_cifar10(where(runs, dataset='cifar10', volume='JFVO'), daca['cifar10', 'JFVO'])} "
        f"{_mnist(where(cells, dataset='mnist'), table2)}\n\n  {_course(daca, cells)}"
    )


def _daca(cells: Columns) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the rows of DACA by dataset and volume; none if one is missing."""
    found = {(row["dataset"], row["volume"]): row for row in rows_of(where(cells, rule="daca"))}
    wanted = [(dataset, volume) for dataset in _DATASETS for volume in _SHARED]
    complete = set(wanted) <= found.keys() and all(row["gain"] is not None for row in found.values())
    return {key: found[key] for key in wanted} if complete else {}


def _gain_row(row: Mapping[str, Any], table2: Result) -> Row:
    place, volume = Place(row["dataset"], row["partition"]), row["volume"]
    gain = _interval(row, "gain")
    claim = f"DACA ends above FedAvg on {place}, {JUDGED[volume]}"
    (verdict,) = (verdict for verdict in table2.verdicts if verdict.claim == claim)
    mark = f"\\{FIRST_RATE}" if row["first_rate"] else ""
    texts = {
        "shared": f"{DATASETS[row['dataset']]}, {_SHARED[volume]}{mark}",
        "DACA − FedAvg": f"**{gain}**" if verdict.holds != "open" else gain,
        "in the paper": number(row["paper_gain"], "+z.2f"),
        "work control − FedAvg": _interval(row, "work"),
        "DACA − work control": _interval(row, "skew"),
        "average sharing ratio": f"{row['average_sharing_ratio']:.2f}",
        "different samples revealed": f"{row['distinct_samples']:,.0f}",
        "seeds": str(row["seeds"]),
    }
    return {name: unbroken(text) for name, text in texts.items()}


def _indented(rows: Iterable[Row]) -> str:
    """Return a table as a part of an item of a list."""
    return textwrap.indent(markdown_table(columns_of(rows)).rstrip(), "  ")


def _cifar10(runs: Columns, daca: Mapping[str, Any]) -> str:
    """Say between which accuracies the seeds of CIFAR-10 end with JFVO's volumes, and what DACA gains on each."""
    ends = []
    for rule in ("none", "daca"):
        found = [100 * accuracy for accuracy in where(runs, rule=rule)["accuracy"]]
        ends.append(f"{STRATEGIES[rule]} between {min(found):.1f} and {max(found):.1f} %")
    gains = ", ".join(f"{gain:+.1f}" for gain in points_above(runs, "daca", "none"))
    return (
        f"With JFVO's volumes CIFAR-10's three seeds end with {', with '.join(ends)} (paper: "
        f"{daca['paper'] - daca['paper_gain']:.1f} and {daca['paper']:.1f}); DACA gains {gains}."
    )


def _mnist(cells: Columns, table2: Result) -> str:
    """Say how much FedAvg on MNIST differs from the paper's, and what DACA gains where it does not."""
    (fedavg,) = rows_of(where(cells, rule="none", volume="all"))
    equal = next(rows_of(where(table2.tables["equal"], dataset="mnist", partition=_SKEW, volume="all")))
    return (
        f"On MNIST FedAvg ends at {fedavg['accuracy']:.2f} % here and at {fedavg['paper']:.2f} % in the paper, which "
        f"leaves more to gain: in round {equal['round']}, where it reaches that here, DACA that shares all is at "
        f"{equal['accuracy']:.2f} %."
    )


def _course(daca: Mapping[tuple[str, str], Mapping[str, Any]], cells: Columns) -> str:
    """Say how the gain depends on the rounds trained, and what is left of it in equal time."""
    row, mnist = daca["cifar10", "all"], daca["mnist", "all"]
    (fedavg,) = rows_of(where(cells, dataset="mnist", volume="all", rule="none"))
    chosen = _interval(daca["mnist", "JFVO"], "equal_time_gain")
    return (
        "Gains shrink in the course of training: on CIFAR-10 DACA that shares all gains "
        f"{_interval(row, 'gain_half')} after half the rounds and {_interval(row, 'gain')} after all, while FedAvg "
        "still rises. Rounds are equal, times are not: on MNIST DACA that shares all takes "
        f"{mnist['simulated_s'] / fedavg['simulated_s']:.2f} times as long as FedAvg, and gains "
        f"{_interval(mnist, 'equal_time_gain')} in FedAvg's time ({chosen} with JFVO's volumes)."
    )


def _interval(row: Mapping[str, Any], name: str) -> str:
    return number(row[name], "+z.2f", row[f"{name}_half_width"])


def _parts(table2: Result) -> str:
    """Say what part of DACA's gain is more work if heads share all."""
    cells = where(table2.tables["cells"], volume="all")
    split = {(row["dataset"], row["partition"]): row for row in rows_of(cells) if row["rule"] == "daca" and row["work"]}
    second = list(rows_of(where(cells, dataset="mnist", partition=_SKEW, rule=SECOND_CONTROL)))
    if not {("mnist", _SKEW), ("mnist", "Dir 1"), ("cifar10", _SKEW)} <= split.keys() or not second:
        return ""
    skewed, milder, cifar10 = (split[place] for place in (("mnist", _SKEW), ("mnist", "Dir 1"), ("cifar10", _SKEW)))
    return (
        "**Part of the gain in final accuracy is more work.** Members also train on the samples that they receive, so "
        "they do more work in a round. If heads share all on MNIST at Dir 0.1, FedAvg with as much work on its own "
        f"samples gains {_interval(skewed, 'work')} points with DACA's weights (the work control) and "
        f"{_interval(second[0], 'gain')} with its own (the epochs control), of DACA's {_interval(skewed, 'gain')}; the "
        f"part of more work lies between both. At Dir 1 the work control gains {_interval(milder, 'work')} of "
        f"{_interval(milder, 'gain')}. On CIFAR-10 it gains {_interval(cifar10, 'work')} of "
        f"{_interval(cifar10, 'gain')}, which settles neither part. Controls keep learning rate and local epochs; "
        "other values of these gain more, as follows."
    )


def _tuned(table2: Result) -> str:
    """Compare FedAvg at the learning rate of the plan with the plan, and with the best strategy if heads share all."""
    cells = where(table2.tables["cells"], dataset="mnist", partition=_SKEW)
    planned = {row["rule"]: row for row in rows_of(where(cells, volume=PLAN))}
    full = [row for row in rows_of(where(cells, volume="all")) if row["rule"] in STRATEGIES]
    if not {"none", "best"} <= planned.keys() or not full:
        return ""
    best, fedavg, plan = max(full, key=lambda row: row["accuracy"]), planned["none"], planned["best"]
    missing = fedavg["seeds"] - plan["seeds"]
    others = f"; on {pluralize(missing, 'more seed')} its training diverged, where FedAvg's did not" if missing else ""
    return (
        "**FedAvg with another learning rate ends as high as strategies that share everything without it.** On MNIST "
        f"at Dir 0.1 FedAvg ends at {number(fedavg['accuracy'], '.2f', fedavg['half_width'])} % with learning rate "
        f"{PLAN_RATE:g} and the local epochs that the law of rounds prefers ({fedavg['local_epochs']:.1f} on average). "
        f"With 0.05 and one local epoch the best strategy that shares all ends at {best['accuracy']:.2f} % "
        f"({STRATEGIES[best['rule']]}); sharing all was not run with {PLAN_RATE:g}. There fedcast's plan, which aims "
        "at the time to 95 %, adds "
        f"{_interval(plan, 'gain')} points at an average sharing ratio of "
        f"{plan['average_sharing_ratio']:.2f} ({pluralize(plan['seeds'], 'seed')}{others}; table2)."
    )


def _others(table2: Result) -> str:
    """Compare DACA with the paper's other strategies that share."""
    cells, runs = (where(table2.tables[name], partition=_SKEW) for name in ("cells", "runs"))
    if not _daca(cells):
        return ""
    tested = [v for v in table2.verdicts if v.claim.startswith(("DACA ends above SCC", "DACA ends above CEC"))]
    judged = [verdict for verdict in tested if verdict.p_value is not None]
    rows = []
    for dataset in _DATASETS:
        for volume, shared in _SHARED.items():
            some = where(runs, dataset=dataset, volume=volume)
            ours = {rule: _difference(some, rule) for rule in _OTHERS}
            rows.append(_against_row(f"{DATASETS[dataset]}, {shared}", ours))
        paper = PRINTED[Place(dataset, _SKEW)]
        printed = {rule: number(paper["daca"] - paper[rule], "+z.2f") for rule in _OTHERS}
        rows.append(_against_row(f"{DATASETS[dataset]}, in the paper", printed))
    above = sum(verdict.holds == "yes" for verdict in judged)
    return (
        f"**DACA does not end measurably above SCC or CEC:** significantly in {above} of {len(judged)} tests of "
        "table2, and with three seeds the intervals of both contain 0. On MNIST the paper's lead over both is larger "
        f"than our intervals allow. Points at Dir 0.1 (the strategies share different amounts):\n\n{_indented(rows)}"
    )


def _against_row(shared: str, differences: Mapping[str, str]) -> Row:
    texts = {"shared": shared, **{f"DACA − {STRATEGIES[rule]}": text for rule, text in differences.items()}}
    return {name: unbroken(text) for name, text in texts.items()}


def _difference(runs: Columns, rule: str) -> str:
    """Return the points of DACA above another strategy, on common seeds."""
    points = points_above(runs, "daca", rule)
    mean = mean_of(points) if points else None
    return number(mean and mean.mean, "+z.2f", mean and mean.half_width)


def _methods(fig7a: Result, fig9b: Result) -> str:
    end, delays = fig7a.tables["end"], where(fig9b.tables["delays"], interference="concurrent")
    tables = [(end, "delay_s"), *((where(delays, devices=one), "total_s") for one in dict.fromkeys(delays["devices"]))]
    excesses = [excess_over_jfvo(rows, value) for rows, value in tables]
    widest = max(abs(excess[rival]) for excess in excesses for rival in RIVALS)
    printed = [excess["jfvo_literal"] for excess in excesses]
    steps = []
    for near, column in ITERATIONS.items():
        means = {method: mean_of(map(float, where(end, method=method)[column])).mean for method in ("jfvo", *RIVALS)}
        steps.append(f"{percent(near)}: {listed(means, '.0f')}")
    return (
        f"**JFVO, SMM and SAA find the same delay**, within {100 * widest:.1g} % on average (fig7a, fig9b): here they "
        "share fedcast's engine, which eliminates frequencies. They differ in the number of iterations until they stay "
        f"close to it (within {'; within '.join(steps)}). JFVO as printed ends {100 * min(printed):.0f} to "
        f"{100 * max(printed):.0f} % above it."
    )


_FINDINGS: tuple[tuple[tuple[str, ...], Callable[..., str]], ...] = (
    (("fig1a", "beyond-rounds"), _rounds),
    (("table2",), _accuracy),
    (("table2",), _parts),
    (("table2",), _tuned),
    (("table2",), _others),
    (("fig7a", "fig9b"), _methods),
)
