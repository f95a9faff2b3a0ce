"""Strategies against each other: every number from courses that are given by formula, tests by SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedcast_paper.figure_parts import learning_curves
from fedcast_paper.figures import table2_volumes
from fedcast_paper.figures.beyond_rounds import speed_up
from fedcast_paper.figures.table2 import cell_scenarios
from fedcast_paper.over_seeds import LAST_ROUNDS, gain_rows, late_accuracy
from fedcast_paper.pages import summary
from fedcast_paper.reproduction_result import Verdict, columns_of, where
from fedcast_paper.reproductions import training_scenarios
from fedcast_paper.verdicts import (
    accuracy_verdicts,
    as_family,
    fewer_rounds_verdicts,
    gains_over,
    holm,
    larger_gain,
    welch_test,
)
from tests.paper.given import data, keep, rising, run_of


def test_fig4_leaves_out_what_was_not_run_and_says_so(job):
    ends = {"none": 0.90, "scc": 0.93, "cec": 0.96, "central": 0.95, "daca": 0.95, "gain": 0.94, "blend": 0.97}
    runs = {}
    for scenario in training_scenarios(["fig4"], job):
        if scenario.data.dataset == "mnist" and scenario.data.partition == "label_skew":
            noise = 0.001 * ((scenario.seed + 1) * ord(scenario.clustering.rule[0]) % 4)
            last = ends[scenario.clustering.rule] + noise
            keep(job, scenario, rising(100, 50, last))
            runs.setdefault(scenario.seed, {})[scenario.clustering.rule] = last
    result = data("fig4", job)
    assert set(result.tables["ends"]["panel"]) == {"mnist"}
    assert len(result.notes) == 3
    assert any(note.startswith("Shakespeare, roles: not run;") for note in result.notes)
    said = {verdict.claim.split(" on ")[0]: verdict.holds for verdict in result.verdicts}
    assert said == {"DACA ends above FedAvg": "yes", "DACA ends above SCC": "yes", "DACA ends above CEC": "no"}
    gain = where(result.tables["gains"], rule="scc", round=80)
    ours = [run["scc"] - run["none"] for run in runs.values()]
    assert gain["gain"] == [pytest.approx(100 * np.mean(ours))]
    half_width = 100 * stats.t.ppf(0.975, 4) * stats.sem(ours)
    assert gain["gain_half_width"] == [pytest.approx(half_width, rel=1e-5)]


def test_fig4_judges_gains_across_datasets(job):
    gains = {"mnist": 0.02, "cifar10": 0.08, "shakespeare": 0.04}
    for scenario in training_scenarios(["fig4"], job):
        rounds, rule = scenario.training.rounds, scenario.clustering.rule
        last = 0.9 if rule == "none" else 0.9 + gains[scenario.data.dataset] + 0.001 * scenario.seed
        keep(job, scenario, rising(rounds, rounds // 2, last))
    said = {verdict.claim: verdict for verdict in data("fig4", job).verdicts}
    # One seed of CIFAR-10 settles nothing, however large its gain.
    assert said["gains on CIFAR-10 exceed those on MNIST"].holds == "open"
    assert said["DACA gains 6 points on Shakespeare"].holds == "partly"
    assert said["DACA gains 6 points on Shakespeare"].evidence == "DACA over FedAvg: +4.00 points, 1 seed"
    assert said["DACA is at least as good as central on CIFAR-10, 80 % one-class users"].holds == "open"


def test_table2_shows_the_controls_that_are_asked_for(job):
    job = replace(job, controls=("work",), seeds=(0,))
    lasts = {"raw": 0.98, "work_control": 0.975}
    for scenario in cell_scenarios(job, "mnist", 0.1, 0.1):
        if (rule := scenario.clustering.rule) in ("none", "daca"):
            last = 0.97 if rule == "none" else lasts[scenario.sharing.kind]
            keep(job, scenario, rising(50, 20, last))
    result = data("table2", job)
    daca, control = (where(result.tables["cells"], dataset="mnist", rule=rule) for rule in ("daca", "daca work"))
    assert (daca["gain"], control["gain"]) == ([pytest.approx(1.0), None, None], [pytest.approx(0.5)])
    shown = summary("table2", result)
    place = shown["source"].index("ours minus FedAvg, paired by seed")
    assert [shown[name][place] for name in ("DACA", "DACA, work control")] == ["+1.00", "+0.50"]
    assert "SCC, work control" not in shown
    plain = cell_scenarios(replace(job, controls=()), "mnist", 0.1, 0.1)
    assert {scenario.sharing.kind for scenario in plain} == {"raw"}


def test_table2_sets_the_paper_beside_ours(job):
    for scenario in training_scenarios(["table2"], job):
        if scenario.data.dataset == "mnist":
            last = {"none": 0.97, "daca": 0.98}.get(scenario.clustering.rule, 0.975)
            keep(job, scenario, rising(50, 20, last + 0.0004 * scenario.seed))
    result = data("table2", job)
    cell = where(result.tables["cells"], dataset="mnist", alpha=0.1, ratio=0.1, rule="none")
    assert cell["accuracy"] == [pytest.approx(97.08)]
    assert cell["paper"] == [96.17]
    assert cell["difference"] == [pytest.approx(0.91)]
    # Five seeds 0.04 points apart: t = 2.776, standard error 0.04·√2.5/√5.
    assert cell["half_width"] == [pytest.approx(2.776 * 0.04 * np.sqrt(2.5) / np.sqrt(5), rel=1e-3)]
    assert cell["late_accuracy"] == cell["accuracy"]
    assert (cell["gain"], cell["paper_gain"]) == ([None], [None])
    half, daca = (where(result.tables["cells"], alpha=0.1, ratio=ratio, rule="daca") for ratio in (0.05, 0.1))
    # FedAvg has no ratio: runs at half of it are compared with the same ones.
    assert half["gain"] == daca["gain"][:1] == [pytest.approx(1.0)]
    assert (half["paper"], half["paper_gain"]) == ([None], [None])
    assert daca["paper_gain"][0] == pytest.approx(97.98 - 96.17)
    assert where(result.tables["cells"], ratio=0.05, rule="none")["rule"] == []
    said = {verdict.claim: verdict.holds for verdict in result.verdicts}
    assert said["FedAvg and DACA end within 1.5 points of the paper on MNIST at Dir 0.1"] == "yes"
    # The straight line meets 96.17 % when it jumps to its last value, in round 20.
    assert result.notes[0] == (
        "MNIST, Dir 0.1: FedAvg reaches the paper's 96.17 % after 20 rounds; DACA is then at 98.08 % (paper: 97.98 %)."
    )
    assert result.notes[-1] == "Not run: CIFAR-10 Dir 0.1 at 10%, CIFAR-10 Dir 1 at 10%, CIFAR-10 Dir 10 at 10%."
    # What the paper prints stands there although nothing of ours was run.
    absent = where(result.tables["cells"], dataset="cifar10", alpha=10.0, rule="cec")
    assert (absent["paper"], absent["accuracy"], absent["seeds"]) == ([77.95], [None], [0])


def test_table2_volumes_splits_gains_into_work_and_skew(job):
    lasts = {"none": 0.60, "daca": 0.70, "daca work": 0.62}
    volume = table2_volumes.cell_scenarios(job, "cifar10", "Dir 0.1", "all")
    for scenario in volume:
        kind = " work" if scenario.sharing.kind == "work_control" else ""
        if (name := scenario.clustering.rule + kind) in lasts:
            # Seeds move all strategies alike, so that differences have no spread but the one of the control.
            last = lasts[name] + 0.03 * scenario.seed + (0.001 * scenario.seed if kind else 0.0)
            keep(job, scenario, rising(100, 50, last), average_sharing_ratio=0.7)
    # A tenth without its control stays out: table2 has it.
    for scenario in table2_volumes.cell_scenarios(job, "mnist", "Dir 0.1", "10 %"):
        if scenario.clustering.rule == "scc":
            keep(job, scenario, rising(50, 20, 0.97))
    result = data("table2-volumes", job)
    cells = result.tables["cells"]
    assert set(zip(cells["dataset"], cells["partition"], cells["volume"], strict=True)) == {
        ("cifar10", "Dir 0.1", "all")
    }
    daca = {name: values[0] for name, values in where(cells, rule="daca").items()}
    assert daca["gain"] == pytest.approx(10) == daca["work"] + daca["skew"]
    assert (daca["work"], daca["gain_half_width"]) == (pytest.approx(2.1), pytest.approx(0, abs=1e-9))
    assert daca["work_half_width"] == pytest.approx(stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3))
    assert daca["paper_gain"] == pytest.approx(75.90 - 67.72)
    assert (daca["simulated_s"], daca["local_epochs"]) == (5 + 100 * 6, 1)
    assert daca["gain_per_leakage"] == pytest.approx(10 / 70)
    control = {name: values[0] for name, values in where(cells, rule="daca work").items()}
    assert (control["gain"], control["work"], control["paper"]) == (pytest.approx(2.1), None, None)
    shown = summary("table2-volumes", result)
    assert shown["of it skew"] == ["–", "+7.90 ± 0.25", "–"]
    # Three seeds settle nothing.
    assert [(verdict.claim, verdict.holds, verdict.p_value) for verdict in result.verdicts] == [
        ("DACA ends above FedAvg on CIFAR-10 at Dir 0.1 if heads share all", "open", None)
    ]
    assert result.notes[0].startswith(
        "Not run: MNIST; CIFAR-10, Dir 0.1: 10 %, JFVO; CIFAR-10, Dir 1: 10 %, all, JFVO;"
    )
    assert result.notes[0].endswith("; Shakespeare.")


def test_table2_volumes_judges_claims_as_one_family(job):
    lasts = {"none": 0.90, "daca": 0.95, "scc": 0.95}
    noise = {"none": (0, 3, -2, 1, -1), "daca": (1, -2, 0, 2, -1), "scc": (-1, 1, 2, -2, 0)}
    for scenario in table2_volumes.cell_scenarios(job, "mnist", "Dir 1", "JFVO"):
        rule = scenario.clustering.rule
        if rule in lasts and scenario.sharing.kind != "work_control":
            last = lasts[rule] + 0.001 * noise[rule][scenario.seed]
            keep(job, scenario, rising(50, 20, last), average_sharing_ratio=0.7)
    above, level = data("table2-volumes", job).verdicts
    assert above.claim == "DACA ends above FedAvg on MNIST at Dir 1 with JFVO's volumes"
    assert level.claim == "DACA ends above SCC on MNIST at Dir 1 with JFVO's volumes"
    gains = [5 + 0.1 * (own - other) for own, other in zip(noise["daca"], noise["none"], strict=True)]
    p_value = stats.ttest_1samp(gains, 0).pvalue
    assert (above.holds, level.holds) == ("yes", "open")
    assert above.p_value == pytest.approx(p_value)
    assert f"{2 * p_value:.2g} corrected for 2 tests" in above.evidence


@pytest.mark.parametrize(
    ("volume", "method", "cap"), [("10 %", "fixed", 0.2), ("all", "fixed", 1.0), ("JFVO", "jfvo", 1.0)]
)
def test_table2_volumes_shares_what_its_columns_say(job, volume, method, cap):
    daca = [
        scenario.allocation
        for scenario in table2_volumes.cell_scenarios(job, "cifar10", "Dir 0.1", volume)
        if scenario.clustering.rule == "daca"
    ]
    assert {(allocation.method, allocation.max_sharing_ratio) for allocation in daca} == {(method, cap)}
    if method == "fixed":
        ratio = {allocation.options("allocation", "fixed").ratio for allocation in daca}
        assert ratio == {table2_volumes.VOLUMES[volume]}
    rules = {one.clustering.rule for one in table2_volumes.cell_scenarios(job, "cifar10", "Dir 0.1", volume)}
    assert ("central" in rules) == (method == "fixed")


def test_table2_volumes_has_a_column_for_the_plan(job):
    chosen = {"none": 5, "best": 3}
    for scenario in table2_volumes.cell_scenarios(job, "mnist", "80 % one-class", "plan"):
        assert (scenario.training.local_epochs, scenario.allocation.method) == ((1, 2, 3, 5, 8), "jfvo")
        last = 0.9 if scenario.clustering.rule == "none" else 0.95
        facts = {"average_sharing_ratio": 0.1, "local_epochs": chosen[scenario.clustering.rule]}
        keep(job, scenario, rising(50, 20, last), **facts)
    table = summary("table2-volumes", data("table2-volumes", job))
    assert table["setting"] == ["MNIST, 80 % one-class, plan"] * 2
    assert table["strategy"] == ["FedAvg", "plan"]
    assert table["local epochs"] == ["5", "3"]
    assert table["above FedAvg"][1].startswith("+5.00")
    assert table["points per 1 % shared"] == ["–", "+0.50"]


def test_beyond_rounds_counts_rounds_seconds_and_who_never_arrives(job):
    for scenario in training_scenarios(["beyond-rounds"], job):
        rule, rounds = scenario.clustering.rule, scenario.training.rounds
        never = rule == "none" and scenario.data.options("partition", "label_skew").single_class_share == 1.0
        reaches = {"none": 40, "blend": 20}.get(rule, 25)
        sharing = 0.0 if rule == "none" else 12.0
        keep(job, scenario, [0.1] * (rounds + 1) if never else rising(rounds, reaches), sharing_s=sharing)
    result = data("beyond-rounds", job)
    table = result.tables["strategies"]
    row = where(table, setting="80 % one-class", rule="blend")
    assert (row["rounds"], row["seconds"]) == ([20.0], [12.0 + 20 * 6.0])
    assert row["speed_up"] == [pytest.approx(240 / 132)]
    never = where(table, setting="100 % one-class", rule="none")
    assert (never["reached"], never["rounds"], never["seconds"]) == ([0], [None], [None])
    # 100 rounds of 6 s were not enough for FedAvg; blend took 12 s of sharing and 20 rounds.
    late = where(table, setting="100 % one-class", rule="blend")
    assert (late["speed_up"], late["speed_up_at_least"]) == ([pytest.approx(600 / 132)], [True])
    said = {verdict.claim: verdict for verdict in result.verdicts}
    assert said["blend never needs significantly more rounds than another strategy"].holds == "yes"
    unmet = said["DACA needs fewer rounds than FedAvg at 100 % one-class"]
    assert unmet.holds == "open"
    assert unmet.evidence.endswith("DACA on 3 of 3 seeds, FedAvg on 0 of 3 seeds")
    assert "MNIST only" in result.notes[0]


def test_speed_up_is_a_geometric_mean_over_common_seeds():
    runs = [run_of(seed, rising(200, reaches)) for seed, reaches in ((0, 10), (1, 20), (5, 5))]
    others = [run_of(seed, rising(200, reaches), "none") for seed, reaches in ((0, 20), (1, 160))]
    assert speed_up(runs, others, 0.95) == (pytest.approx(np.sqrt((125 / 65) * (965 / 125))), False)
    assert speed_up(runs[2:], others, 0.95) is None


def test_a_baseline_that_never_arrives_bounds_the_speed_up():
    never = run_of(0, [0.5] * 201, "none")
    assert speed_up([run_of(0, rising(200, 10))], [never], 0.95) == (pytest.approx((5 + 200 * 6) / 65), True)


def test_strategies_are_compared_on_the_seeds_that_both_have():
    """FedAvg has a lucky seed 7 that DACA was not run on."""
    fedavg = [run_of(seed, [0.1, 0.90 + 0.001 * seed], "none") for seed in (0, 1, 2, 3, 7)]
    daca = [run_of(seed, [0.1, 0.91 + 0.001 * seed + 0.0005 * (seed == 1)]) for seed in (3, 2, 1, 0)]
    assert gains_over([*fedavg, *daca], "daca") == pytest.approx([1.0, 1.05, 1.0, 1.0])
    (verdict,) = accuracy_verdicts([*fedavg, *daca], "daca", ["none", "scc"])
    p_value = stats.ttest_rel([91.0, 91.15, 91.2, 91.3], [90.0, 90.1, 90.2, 90.3]).pvalue
    assert (verdict.holds, verdict.p_value) == ("yes", pytest.approx(p_value))
    assert verdict.evidence == f"+1.01 ± 0.04 points of accuracy, 4 seeds, paired t test p = {p_value:.2g}"
    # Without FedAvg's own seed the curve starts level and ends a point above.
    rows = gain_rows(daca, fedavg)
    assert [row["gain"] for row in rows] == pytest.approx([0.0, 100 * (0.01 + 0.0005 / 4)])


def test_three_seeds_give_an_interval_and_no_verdict():
    fedavg = [run_of(seed, [0.1, 0.90 + 0.001 * seed], "none") for seed in range(3)]
    daca = [run_of(seed, [0.1, 0.95 + 0.0011 * seed]) for seed in range(3)]
    (verdict,) = accuracy_verdicts([*fedavg, *daca], "daca", ["none"])
    assert (verdict.holds, verdict.p_value) == ("open", None)
    assert verdict.evidence == "+5.01 ± 0.02 points of accuracy, 3 seeds, too few for a verdict"


def test_tests_of_a_table_are_corrected_together():
    # p.adjust(c(0.01, 0.02, 0.03, 0.004), "holm") of R 4.
    assert holm([0.01, 0.02, 0.03, 0.004]) == pytest.approx([0.03, 0.04, 0.04, 0.016])
    given = [Verdict("a", "yes", "a", 0.03), Verdict("b", "no", "b", 0.01), Verdict("c", "partly", "c")]
    assert as_family([*given, Verdict("d", "yes", "d", 0.04)]) == (
        Verdict("a", "open", "a, 0.06 corrected for 3 tests", 0.03),
        Verdict("b", "no", "b, 0.03 corrected for 3 tests", 0.01),
        Verdict("c", "partly", "c"),
        Verdict("d", "open", "d, 0.06 corrected for 3 tests", 0.04),
    )
    assert as_family(given[:1]) == (given[0],)


def test_without_common_seeds_there_is_no_gain_and_no_line():
    rows = gain_rows([run_of(0, [0.1, 0.9])], [run_of(1, [0.1, 0.8], "none")], rule="daca")
    assert [row["gain"] for row in rows] == [None, None]
    assert learning_curves(columns_of(rows), "gain", "rule", {"daca": "DACA"}, {"daca": 1}) == []


def test_fewer_rounds_is_ahead_and_more_is_behind():
    daca = [run_of(seed, rising(100, 40 + seed)) for seed in range(4)]
    scc = [run_of(seed, rising(100, 50 + 2 * seed), "scc") for seed in range(4)]
    cec = [run_of(seed, rising(100, 30 - seed), "cec") for seed in range(4)]
    verdicts = fewer_rounds_verdicts([*daca, *scc, *cec], "daca", ("none", "scc", "cec"), 0.95, " here")
    assert [(verdict.claim, verdict.holds) for verdict in verdicts] == [
        ("DACA needs fewer rounds than SCC here", "yes"),
        ("DACA needs fewer rounds than CEC here", "no"),
    ]
    # Differences 10, 11, 12, 13: standard error √(5/3)/2.
    assert verdicts[0].evidence.startswith(f"-11.5 ± {stats.t.ppf(0.975, 3) * np.sqrt(5 / 3) / 2:.1f} rounds, 4 seeds")


def test_gains_on_two_datasets_are_tested_by_welch():
    cifar, mnist = [8.0, 8.4, 7.7, 8.0], [0.1, 0.3, 0.2, 0.2, 0.3]
    means, sems = [np.mean(cifar), np.mean(mnist)], [stats.sem(cifar), stats.sem(mnist)]
    freedom = (sems[0] ** 2 + sems[1] ** 2) ** 2 / (sems[0] ** 4 / 3 + sems[1] ** 4 / 4)
    by_hand = 2 * stats.t.sf((means[0] - means[1]) / np.hypot(*sems), freedom)
    assert welch_test(cifar, mnist) == pytest.approx(by_hand)
    (verdict,) = larger_gain({"cifar10": cifar, "mnist": mnist}, " at Dir 1")
    assert (verdict.claim, verdict.holds) == ("gains on CIFAR-10 exceed those on MNIST at Dir 1", "yes")
    assert larger_gain({"cifar10": mnist, "mnist": cifar})[0].holds == "no"
    assert larger_gain({"cifar10": [], "mnist": mnist}) == []
    assert larger_gain({"cifar10": cifar[:3], "mnist": mnist})[0].holds == "open"
    assert welch_test([1.0, 1.0], [2.0, 2.0]) is None


def test_late_accuracy_is_that_of_the_last_rounds_and_never_of_the_start():
    assert late_accuracy(run_of(0, [0.0, *np.arange(20) / 100])) == pytest.approx(np.mean(np.arange(10, 20)) / 100)
    assert LAST_ROUNDS == 10
    assert late_accuracy(run_of(0, [0.0, 0.4, 0.6])) == pytest.approx(0.5)
