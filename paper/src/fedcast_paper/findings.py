"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedcast.formatting import pluralize
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import RIVALS
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.text_tables import ABSENT, Row, markdown_table, number, rows_of, unbroken
from fedcast_paper.training_setting import DATASETS, STRATEGIES
from fedcast_paper.verdicts import excess_over_jfvo
from fedcast_paper.volume_tables import FIRST_RATE, JUDGED, lead_over, points_above, short_percent
from fedcast_paper.volumes import PLAN, PLAN_RATE, SECOND_CONTROL, Place

# The volumes that findings name, and their settings in beyond-rounds.
_SHARED = {"10 %": "a tenth", "JFVO": "JFVO's volumes", "all": "all"}
_IN_ROUNDS = {"10 %": "Dir 0.1", "JFVO": "Dir 0.1, JFVO", "all": "Dir 0.1, all"}
_DATASETS = ("mnist", "cifar10")
_SKEW = "Dir 0.1"
_RIVALS = ("scc", "cec")


def findings(stored: Mapping[str, Result]) -> list[str]:
    """Return a few sentences for each finding whose results are stored and have what the finding compares."""
    texts = [text(*(stored[name] for name in names)) for names, text in _FINDINGS if set(names) <= stored.keys()]
    return [text for text in texts if text]


def _accuracy(table2: Result, beyond_rounds: Result) -> str:
    """Compare what DACA gains over FedAvg at several volumes with the paper's, and with what it costs."""
    cells, runs = (where(table2.tables[name], partition=_SKEW) for name in ("cells", "runs"))
    daca = _daca(cells)
    if not daca:
        return ""
    rows = [_gain_row(row, cells, table2, beyond_rounds) for row in daca.values()]
    note = f"; \\{FIRST_RATE}: at another learning rate" if any(row["first_rate"] for row in daca.values()) else ""
    gains = points_above(where(runs, dataset="cifar10", volume="JFVO"), "daca", "none")
    return (
        f"**DACA against FedAvg at {_SKEW}.** On MNIST DACA gains less than half of the paper's "
        f"{_signed(daca['mnist', 'all']['paper_gain'])} points of accuracy. On CIFAR-10 the mean of three seeds is "
        f"near the paper's {_signed(daca['cifar10', 'all']['paper_gain'])} if heads share nearly all they hold; "
        f"every seed gains ({', '.join(f'{gain:+.1f}' for gain in gains)} with JFVO's volumes), but the interval "
        "contains 0 (table2). Time is that of sharing and all rounds, relative to FedAvg's; rounds saved are those to "
        f"97 % (beyond-rounds). Bold: significant after correction, which three seeds are not tested for{note}.\n\n"
        f"{textwrap.indent(markdown_table(columns_of(rows)).rstrip(), '  ')}"
    )


def _daca(cells: Columns) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the rows of DACA by dataset and volume; none if one is missing."""
    found = {(row["dataset"], row["volume"]): row for row in rows_of(where(cells, rule="daca"))}
    wanted = [(dataset, volume) for dataset in _DATASETS for volume in _SHARED]
    complete = set(wanted) <= found.keys() and all(row["gain"] is not None for row in found.values())
    return {key: found[key] for key in wanted} if complete else {}


def _gain_row(row: Mapping[str, Any], cells: Columns, table2: Result, beyond_rounds: Result) -> Row:
    place, volume = Place(row["dataset"], row["partition"]), row["volume"]
    others = {one["rule"]: one for one in rows_of(where(cells, dataset=place.dataset, volume=volume))}
    ends = _verdict(table2, f"DACA ends above FedAvg on {place}, {JUDGED[volume]}")
    mark = f"\\{FIRST_RATE}" if row["first_rate"] else ""
    texts = {
        "shared": f"{DATASETS[place.dataset]}, {_SHARED[volume]}{mark}",
        "DACA − FedAvg": _bold(_interval(row, "gain"), ends),
        "in the paper": _signed(row["paper_gain"]),
        "of it more work": _work(row, others.get(SECOND_CONTROL)),
        "average sharing ratio": short_percent(row["average_sharing_ratio"]),
        "different samples revealed": f"{row['distinct_samples']:,.0f}",
        "time": f"{row['simulated_s'] / others['none']['simulated_s']:.2f}",
        "rounds saved": _saved(beyond_rounds, volume) if place.dataset == "mnist" else ABSENT,
        "seeds": str(row["seeds"]),
    }
    return {name: unbroken(text) for name, text in texts.items()}


def _work(row: Mapping[str, Any], second: Mapping[str, Any] | None) -> str:
    """Return what the work control gains or, with a second control on as many seeds, from which to which of both."""
    if second is None or second["seeds"] < row["seeds"]:
        return _interval(row, "work")
    return " to ".join(_signed(value) for value in sorted([row["work"], second["gain"]]))


def _saved(beyond_rounds: Result, volume: str) -> str:
    rows = list(rows_of(where(beyond_rounds.tables["strategies"], setting=_IN_ROUNDS[volume], rule="daca")))
    if not rows or rows[0]["saved_rounds"] is None:
        return ABSENT
    saved = number(rows[0]["saved_rounds"], ".1f", rows[0]["saved_rounds_half_width"])
    return _bold(saved, _verdict(beyond_rounds, f"DACA needs fewer rounds than FedAvg at {_IN_ROUNDS[volume]}"))


def _course(table2: Result) -> str:
    """Say how the gain depends on the rounds trained."""
    cells = where(table2.tables["cells"], partition=_SKEW, volume="all")
    daca = {row["dataset"]: row for row in rows_of(where(cells, rule="daca"))}
    fedavg = {row["dataset"]: row for row in rows_of(where(cells, rule="none"))}
    equal = list(rows_of(where(table2.tables["equal"], dataset="mnist", partition=_SKEW, volume="all")))
    if not set(_DATASETS) <= daca.keys() or not equal:
        return ""
    cifar10, mnist, ours = daca["cifar10"], daca["mnist"], fedavg["mnist"]
    return (
        "**Gains in accuracy shrink in the course of training.** Sharing all on CIFAR-10, DACA gains "
        f"{_interval(cifar10, 'gain_quarter')} after a quarter of the rounds, {_interval(cifar10, 'gain_half')} after "
        f"half and {_interval(cifar10, 'gain')} at the end, where FedAvg still rises. On MNIST our FedAvg ends at "
        f"{ours['accuracy']:.2f} %, the paper's at {ours['paper']:.2f} %, which leaves more to gain: when ours passes "
        f"that, in round {equal[0]['round']}, DACA sharing all is at {equal[0]['accuracy']:.2f} % (paper: "
        f"{mnist['paper']:.2f} %; table2)."
    )


def _parts(table2: Result) -> str:
    """Say what part of DACA's gain is more work if heads share all."""
    cells = where(table2.tables["cells"], volume="all")
    split = {(row["dataset"], row["partition"]): row for row in rows_of(cells) if row["rule"] == "daca" and row["work"]}
    second = list(rows_of(where(cells, dataset="mnist", partition=_SKEW, rule=SECOND_CONTROL)))
    if not {("mnist", _SKEW), ("cifar10", _SKEW)} <= split.keys() or not second:
        return ""
    skewed, cifar10 = (split[dataset, _SKEW] for dataset in _DATASETS)
    milder = "".join(
        f"; at {skew} {_interval(row, 'work')} (work control) of {_interval(row, 'gain')}"
        for (dataset, skew), row in split.items()
        if dataset == "mnist" and skew != _SKEW
    )
    return (
        "**Part of the gain in accuracy is more work,** since members also train on the samples that they receive. On "
        f"MNIST, sharing all at {_SKEW}, as much work on a user's own samples gains {_interval(skewed, 'work')} points "
        f"(work control) to {_interval(second[0], 'gain')} (epochs control) of DACA's {_interval(skewed, 'gain')}, if "
        f"repeated samples are worth as much as new ones{milder}. On CIFAR-10 {_interval(cifar10, 'work')} of "
        f"{_interval(cifar10, 'gain')} settles neither part (table2)."
    )


def _tuned(table2: Result) -> str:
    """Compare FedAvg at the learning rate of the plan with the plan, and with the best strategy if heads share all."""
    cells = where(table2.tables["cells"], dataset="mnist", partition=_SKEW)
    planned = {row["rule"]: row for row in rows_of(where(cells, volume=PLAN))}
    full = [row for row in rows_of(where(cells, volume="all")) if row["rule"] in STRATEGIES]
    if not {"none", "best"} <= planned.keys() or not full:
        return ""
    best, fedavg, plan = max(full, key=lambda row: row["accuracy"]), planned["none"], planned["best"]
    diverged = fedavg["seeds"] - plan["seeds"]
    seeds = pluralize(plan["seeds"], "seed")
    on = f"on the {seeds} on which it did not diverge (of {fedavg['seeds']})" if diverged else f"on {seeds}"
    return (
        f"**On MNIST a larger learning rate gains as much as sharing everything.** At {_SKEW} FedAvg with learning "
        f"rate {PLAN_RATE:g} ends at {number(fedavg['accuracy'], '.2f', fedavg['half_width'])} %; with 0.05 the best "
        f"strategy, {STRATEGIES[best['rule']]} sharing all, ends at {best['accuracy']:.2f} %. With {PLAN_RATE:g} "
        f"fedcast's plan adds {_interval(plan, 'gain')} points {on}, sharing "
        f"{short_percent(plan['average_sharing_ratio'])}; sharing all was not run there (table2)."
    )


def _others(table2: Result, beyond_rounds: Result) -> str:
    """Compare DACA with the paper's other clustering rules."""
    claims = [f"DACA {what} {STRATEGIES[rule]}" for what in _AGAINST for rule in _RIVALS]
    accuracy, rounds = (
        [one for one in some.verdicts if one.claim.startswith(tuple(claims)) and one.p_value is not None]
        for some in (table2, beyond_rounds)
    )
    cells, runs = (where(table2.tables[name], dataset="mnist") for name in ("cells", "runs"))
    leads = [lead for row in rows_of(where(cells, rule="daca")) for lead in _leads(row, cells, runs)]
    if not accuracy or not rounds or not leads:
        return ""
    below = sum(lead["gap"] + lead["gap_half_width"] < lead["paper_gap"] for lead in leads)
    return (
        "**DACA is not measurably better than SCC or CEC:** its accuracy is significantly higher in "
        f"{_count(accuracy)}, its rounds are significantly fewer in {_count(rounds)}. On MNIST {below} of "
        f"{len(leads)} intervals lie below the paper's lead (table2).{_one_class(beyond_rounds)}"
    )


def _one_class(beyond_rounds: Result) -> str:
    """Compare DACA with CEC if all users hold one class."""
    found = where(beyond_rounds.tables["strategies"], setting="100 % one-class")
    rows = {row["rule"]: row for row in rows_of(found) if row["rounds"] is not None}
    if not {"daca", "cec"} <= rows.keys():
        return ""
    daca, cec = rows["daca"], rows["cec"]
    return (
        f" If all users hold one class, DACA needs {daca['rounds']:.0f} rounds to {100 * daca['target']:g} %, CEC "
        f"{cec['rounds']:.0f} ({pluralize(daca['seeds'], 'seed')}; beyond-rounds)."
    )


_AGAINST = ("ends above", "needs fewer rounds than")


def _count(verdicts: list[Verdict]) -> str:
    return f"{sum(verdict.holds == 'yes' for verdict in verdicts)} of {len(verdicts)} tests"


def _leads(daca: Mapping[str, Any], cells: Columns, runs: Columns) -> Iterable[Mapping[str, Any]]:
    found = (lead_over(rule, daca, cells, runs) for rule in _RIVALS)
    return (lead for lead in found if lead["paper_gap"] is not None and lead["gap_half_width"] is not None)


def _rounds(fig1a: Result, beyond_rounds: Result) -> str:
    """Say how many rounds skew costs, and how much time sharing saves."""
    runs, strategies = fig1a.tables["runs"], beyond_rounds.tables["strategies"]
    alike, skewed = (mean_of(where(runs, one_class_share=share)["rounds"]).mean for share in (0.0, 0.8))
    rows = {row["rule"]: row for row in rows_of(where(strategies, setting="80 % one-class"))}
    speed = {rule: row["speed_up"] for rule, row in rows.items() if rule != "none"}
    fastest, slowest = max(speed, key=lambda rule: speed[rule]), min(speed, key=lambda rule: speed[rule])
    return (
        f"**Skew costs rounds, and sharing saves time.** On MNIST with one local epoch FedAvg needs {alike:.0f} rounds "
        f"to 95 % if users are alike and {skewed:.0f} if 80 % of them hold one class (fig1a). If heads then share a "
        f"tenth, all strategies are faster in simulated time, by {speed[slowest]:.2f} ({STRATEGIES[slowest]}) to "
        f"{speed[fastest]:.2f} times ({STRATEGIES[fastest]}).{_dirichlet(strategies)} FedAvg with more local epochs "
        "and a larger learning rate is faster too: `studies/README.md` says what a plan saves against its best."
    )


def _dirichlet(strategies: Columns) -> str:
    """Say how many times faster DACA is at Dir 0.1, by the volume that heads share."""
    texts = []
    for volume, shared in _SHARED.items():
        rows = {row["rule"]: row for row in rows_of(where(strategies, setting=_IN_ROUNDS[volume]))}
        if "daca" not in rows or rows["daca"]["speed_up"] is None:
            return ""
        texts.append(f"{rows['daca']['speed_up']:.2f} ({shared})")
    return f" At {_SKEW} DACA is {', '.join(texts)} times faster, since sending takes time too (beyond-rounds)."


def _methods(fig7a: Result, fig9b: Result) -> str:
    end, delays = fig7a.tables["end"], where(fig9b.tables["delays"], interference="concurrent")
    tables = [(end, "delay_s"), *((where(delays, devices=one), "total_s") for one in dict.fromkeys(delays["devices"]))]
    excesses = [excess_over_jfvo(rows, value) for rows, value in tables]
    widest = max(abs(excess[rival]) for excess in excesses for rival in RIVALS)
    printed = [excess["jfvo_literal"] for excess in excesses]
    return (
        f"**JFVO, SMM and SAA find the same delay**, within {100 * widest:.1g} % on average: here they share fedcast's "
        f"engine, which eliminates frequencies. JFVO as printed ends {100 * min(printed):.0f} to "
        f"{100 * max(printed):.0f} % above it (fig7a, fig9b)."
    )


def _verdict(result: Result, claim: str) -> Verdict:
    (found,) = (verdict for verdict in result.verdicts if verdict.claim == claim)
    return found


def _bold(text: str, verdict: Verdict) -> str:
    return text if verdict.holds == "open" else f"**{text}**"


def _interval(row: Mapping[str, Any], name: str) -> str:
    return number(row[name], "+z.2f", row[f"{name}_half_width"])


def _signed(value: float | None) -> str:
    return number(value, "+z.2f")


_FINDINGS: tuple[tuple[tuple[str, ...], Callable[..., str]], ...] = (
    (("table2", "beyond-rounds"), _accuracy),
    (("table2",), _course),
    (("table2",), _parts),
    (("table2",), _tuned),
    (("table2", "beyond-rounds"), _others),
    (("fig1a", "beyond-rounds"), _rounds),
    (("fig7a", "fig9b"), _methods),
)
