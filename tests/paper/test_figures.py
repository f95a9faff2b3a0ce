"""The figures that need no training, against plain loops, SciPy, CVXPY and values of the specification."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.allocation import METHODS as FINDERS
from fedcast.allocation import minimise_surrogate
from fedcast.rounds import AccuracyFit
from fedcast_paper.figures import fig6, fig7a, fig8, fig9a, fig9b
from fedcast_paper.planning_setting import INTERFERING, METHODS, make_task, paper_scenario, problem_of
from fedcast_paper.reproduction_result import columns_of, where
from fedcast_paper.trained import Trained
from fedcast_paper.verdicts import converged_after, excess_over_jfvo, lower_verdict, rank_correlation

# Weights of the CNN in bits; E[log2(1 + SNR·g)] under Rayleigh fading at 10 and 20 dB.
CNN_BITS = 21_840 * 32
ERGODIC = {10: 2.90651481, 20: 5.88404823}


def plain_emd(rows):
    """Average EMD of counts by the definition, user by user."""
    whole = [sum(row[label] for row in rows) for label in range(len(rows[0]))]
    total = 0.0
    for row in rows:
        held = sum(row)
        total += held * sum(abs(count / held - part / sum(whole)) for count, part in zip(row, whole, strict=True))
    return total / sum(whole)


def rows_of(table):
    return list(zip(*(column for name, column in table.items() if name != "user"), strict=True))


def test_fig5_states_by_hand(smoke):
    tables = smoke("fig5").tables
    average = dict(zip(*tables["average EMD"].values(), strict=True))
    for state in ("iid", "before", "after"):
        assert average[state] == pytest.approx(plain_emd(rows_of(tables[state])), rel=1e-6)
    assert average["iid"] < average["after"] < average["after 10 %"] < average["before"]


def test_fig5_members_of_a_head_receive_the_same_samples(smoke):
    tables = smoke("fig5").tables
    before, after = (np.array(rows_of(tables[state])) for state in ("before", "after"))
    received = after - before
    assert (received >= 0).all()
    kinds = np.unique(received[received.any(axis=1)], axis=0)
    assert 0 < len(kinds) < received.any(axis=1).sum(), "heads send one set to several members"
    for sent in kinds:
        assert (before >= sent).all(axis=1).any(), "somebody holds what was sent"


def test_fig7a_methods_start_at_the_same_place_of_the_same_objective(smoke):
    trace = smoke("fig7a").tables["trace"]
    for seed in set(trace["seed"]):
        starts = where(trace, seed=seed, iteration=0)
        assert starts["method"] == list(METHODS)
        assert len(set(starts["delay_s"])) == 1


def test_fig7a_ends_are_not_above_the_last_iterate_of_a_descent(smoke):
    trace, end = smoke("fig7a").tables["trace"], smoke("fig7a").tables["end"]
    for method in ("jfvo", "smm", "saa"):
        for seed in set(end["seed"]):
            delays = where(trace, method=method, seed=seed)["delay_s"]
            assert where(end, method=method, seed=seed)["delay_s"][0] <= min(delays) * (1 + 1e-6)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=20))
def test_converged_after_by_a_plain_loop(trace):
    first = next((t for t in range(len(trace)) if all(abs(v - 1) <= 0.01 for v in trace[t:])), len(trace))
    assert converged_after(trace, end=1.0) == first


def test_excess_and_verdict():
    def rows(smm, saa):
        return {"method": ["jfvo", "smm", "saa"] * 2, "delay_s": [10.0, smm, saa, 20.0, 2 * smm, 2 * saa]}

    assert excess_over_jfvo(rows(11.0, 10.0), "delay_s") == pytest.approx({"smm": 0.1, "saa": 0.0})
    pairs = ((11, 12), (11, 10), (10, 10), (11, 9), (10.016, 10))
    answers = [lower_verdict(rows(*both), "delay_s").holds for both in pairs]
    assert answers == ["yes", "partly", "no", "no", "no"]


@pytest.mark.parametrize(
    ("jfvo", "answer", "in_six"),
    [((1, 5), "yes", "yes"), ((1, 12), "partly", "partly"), ((9, 12), "no", "no"), ((8, 5), "partly", "partly")],
)
def test_fig7a_fastest_only_if_it_is_however_near_is_near(jfvo, answer, in_six):
    """The rivals take (21, 30) and (6, 7) iterations to come within 1 % and 0.1 %."""
    taken = {"jfvo": jfvo, "smm": (21, 30), "saa": (6, 7)}
    end = columns_of(
        {"method": method, "seed": 0, "iterations": near, "iterations_nearer": nearer}
        for method, (near, nearer) in taken.items()
    )
    assert fig7a._is_fastest(end).holds == answer
    converges = fig7a._converges(end)
    assert converges.holds == in_six
    assert f"within 0.1 % after {jfvo[1]}.0 iterations" in converges.evidence
    assert converges.evidence.endswith("over 1 world")


def test_fig7a_iterations_of_both_tolerances_by_a_plain_loop(smoke):
    trace, end = smoke("fig7a").tables["trace"], smoke("fig7a").tables["end"]
    for method, seed, end_s, near, nearer in zip(
        end["method"], end["seed"], end["delay_s"], end["iterations"], end["iterations_nearer"], strict=True
    ):
        delays = where(trace, method=method, seed=seed)["delay_s"]
        for tolerance, found in ((0.01, near), (0.001, nearer)):
            assert all(abs(delay / end_s - 1) <= tolerance for delay in delays[found:])
            assert found == 0 or abs(delays[found - 1] / end_s - 1) > tolerance


def run_of(share, emd, rounds, last=0.95, rule="none"):
    """A run that meets 0.95 at the given round and ends there."""
    scenario = paper_scenario(50, 0, f"data.label_skew.single_class_share={share}", f"clustering.rule={rule}")
    return Trained(scenario, {"emd_after_b": emd}, {"accuracy": [0.0] * rounds + [last]})


def test_fig6_log_slopes_by_hand():
    runs = [run_of(0.0, 0.0, 10), run_of(0.5, 1.0, 20), run_of(0.8, 1.4, 30), run_of(0.8, 1.6, 50)]
    assert fig6._log_slopes(runs, 0.95) == pytest.approx([math.log(2), math.log(2) / 0.5])
    (note,) = fig6._form_notes(runs, 0.95)
    assert "its slope is 0.7 per unit of EMD" in note
    assert "skew and 1.4 between the two highest" in note
    assert fig6._form_notes(runs, 0.96) == []


@pytest.mark.parametrize(("shared_ends", "answer"), [((0.97, 0.96, 0.955, 0.95), "yes"), ((0.97,) * 4, "partly")])
def test_fig6_accuracy_is_judged_with_and_without_sharing(shared_ends, answer):
    emds = (1.0, 1.2, 1.4, 1.6)
    without = [run_of(0.8, emd, 1, last) for emd, last in zip(emds, (0.99, 0.98, 0.97, 0.8), strict=True)]
    shared = [run_of(0.8, emd, 1, last, "daca") for emd, last in zip(emds, shared_ends, strict=True)]
    verdict = fig6._accuracy_verdict(without + shared)
    assert verdict.holds == answer
    assert "+1.00 (p = 0) over runs without sharing" in verdict.evidence


def test_fig6_says_where_the_curve_of_accuracies_is_wrong():
    runs = [run_of(0.5, 1.0, 1, 0.97), run_of(1.0, 1.8, 1, 0.8)]
    note = fig6._accuracy_note(runs, AccuracyFit(np.array([1.0, 1.8]), np.array([0.97, 0.948]), 0.9))
    assert "NMSE 0.900" in note
    assert "its largest error is +14.8 points, at EMD 1.80" in note


def test_rank_correlation_by_the_definition():
    draw = np.random.default_rng(0)
    first, second = draw.permutation(30), draw.permutation(30)
    by_hand = 1 - 6 * ((first - second) ** 2).sum() / (30 * (30**2 - 1))
    assert rank_correlation(first, second).correlation == pytest.approx(by_hand)
    assert rank_correlation([1, 2], [3, 4]).p_value == 1.0, "two pairs prove nothing"
    assert rank_correlation([], []).p_value == 1.0, "none proves nothing either"


def test_fig7b_download_and_upload_by_the_ergodic_rate(smoke):
    end = smoke("fig7b").tables["end"]
    for snr_db, efficiency in ERGODIC.items():
        rows = where(end, snr_db=snr_db)
        assert rows["download_s"] == pytest.approx([CNN_BITS / (20e6 * efficiency)] * len(rows["seed"]), rel=1e-6)
        assert rows["upload_s"] == pytest.approx([CNN_BITS / (1e6 * efficiency)] * len(rows["seed"]), rel=1e-6)


def test_fig8_cvxpy_minimises_what_fedcast_minimises():
    """Every surrogate of a real search, solved by both: fedcast is never worse, CVXPY never by much."""
    problem = problem_of(make_task(paper_scenario(50, 0)))
    feasible, theirs = problem.feasible, fig8.cvxpy_minimiser(problem.feasible)
    compared = []

    def value(surrogate, x):
        linear, square = surrogate.linear @ x, surrogate.curvature @ x**2 / 2
        round_s = feasible.delay.at(x * feasible.sizes)
        return surrogate.sharing_weight * max(x / feasible.rate) + surrogate.round_weight * round_s + linear + square

    def both(surrogate, _):
        values = [value(surrogate, minimiser(surrogate, feasible)) for minimiser in (minimise_surrogate, theirs)]
        compared.append((values[0] - values[1]) / abs(values[1]))
        return minimise_surrogate(surrogate, feasible)

    FINDERS["jfvo"](replace(problem, minimiser=both))
    assert len(compared) >= 60
    assert max(compared) <= 1e-9
    assert min(compared) >= -1e-5


def test_fig8_both_solvers_end_at_the_same_delay(smoke):
    times = smoke("fig8").tables["times"]
    for count in set(times["users"]):
        for method in fig8.TIMED:
            delays = where(times, users=count, method=method)["delay_s"]
            assert max(delays) <= min(delays) * (1 + 1e-3)


def test_fig8_growth_by_hand():
    rows = [(50, "fedcast", 2.0), (50, "fedcast", 1.0), (50, "fedcast", 9.0), (100, "fedcast", 3.0)]
    rows += [(50, "cvxpy", 1.0), (100, "cvxpy", 8.0)]
    times = {"users": [], "solver": [], "method": [], "seconds": []}
    for method in fig8.TIMED:
        for users, solver, seconds in rows:
            for name, entry in zip(times, (users, solver, method, seconds), strict=True):
                times[name].append(entry)
    assert fig8.growth(times, "fedcast") == dict.fromkeys(fig8.TIMED, 1.5)
    assert fig8.growth(times, "cvxpy") == dict.fromkeys(fig8.TIMED, 8.0)
    assert [verdict.holds for verdict in fig8._verdicts(times)] == ["partly", "no"]


def test_fig8_says_how_many_times_longer_cvxpy_takes():
    times = columns_of(
        {"users": 1000, "solver": solver, "method": method, "seconds": seconds}
        for method, factor in zip(fig8.TIMED, (29, 23, 19), strict=True)
        for solver, seconds in (("fedcast", 0.1), ("cvxpy", 0.1 * factor))
    )
    said = "At K = 1,000 CVXPY takes 29 (JFVO), 23 (SMM), 19 (SAA) times as long as fedcast's minimiser."
    assert fig8._slower_with_cvxpy(times) == said


def plain_sinr_db(task, member, head):
    """Line of sight at 28 GHz by hand: 4 dB of margin on the wanted link only, all other heads as interference."""
    positions = task.world.layout.positions_m

    def received_mw(sender):
        distance = max(math.dist(positions[sender], positions[member]), 1.0)
        return 10 ** ((10 - 32.4 - 20 * math.log10(28) - 21 * math.log10(distance)) / 10)

    noise_mw = 10 ** ((-174 + 90) / 10)
    others = sum(received_mw(other) for other in task.clustering.heads if other != head)
    return 10 * math.log10(received_mw(head) * 10**-0.4 / (noise_mw + others))


def test_fig9a_sinr_is_that_of_the_worst_member_under_interference(smoke):
    table = where(smoke("fig9a").tables["clusters"], devices="Table I", method="jfvo")
    task = make_task(paper_scenario(50, 0, INTERFERING))
    for head, sinr_db, members in zip(table["head"], table["sinr_db"], table["members"], strict=True):
        led = np.flatnonzero(task.clustering.head_of == head)
        assert len(led) == members
        assert sinr_db == pytest.approx(min(plain_sinr_db(task, member, head) for member in led), abs=1e-3)


def test_fig9a_ratios_are_volumes_over_sizes(smoke):
    table = smoke("fig9a").tables["clusters"]
    assert table["ratio"] == pytest.approx([shared / 600 for shared in table["shared"]], rel=1e-6)


def test_fig9a_more_in_each_cluster_is_counted_cluster_by_cluster():
    ratios = {"jfvo": (0.5, 0.6, 0.7), "smm": (0.4, 0.5, 0.8), "saa": (0.5, 0.602, 0.7)}
    clusters = columns_of({"method": method, "ratio": ratio} for method in ratios for ratio in ratios[method])
    verdict = fig9a._shares_more(clusters, "Table I")
    assert verdict.holds == "partly"
    said = "of 3 clusters JFVO is above SMM in 2 and below in 1, above SAA in 0 and below in 0"
    assert verdict.evidence == f"mean sharing ratio of a cluster: JFVO 0.600, SMM 0.567, SAA 0.601; {said}"


def test_fig9a_judges_each_kind_of_device(smoke):
    said = [verdict.claim for verdict in smoke("fig9a").verdicts if "shares more" in verdict.claim]
    assert [claim.rpartition(" (")[2] for claim in said] == ["Table I)", "faster devices)"]


@pytest.mark.parametrize(
    ("with_interference", "without", "answers"),
    [((1, 5), (3, 3), ("yes", "yes")), ((1, 5), (3, 4), ("yes", "partly")), ((5, 1), (3, 4), ("no", "no"))],
)
def test_fig9b_growth_and_its_cause_are_judged_apart(with_interference, without, answers):
    """Five worlds each of 50 and 500 users whose sharing takes so many seconds."""
    growth = {
        kind: fig9b._growth({"users": [50] * 5 + [500] * 5, "sharing_s": [first] * 5 + [last] * 5})
        for kind, (first, last) in {"concurrent": with_interference, "noise_rise": without}.items()
    }
    grows, cause = fig9b._sharing_grows(growth["concurrent"], "x"), fig9b._by_interference(growth, "x")
    assert (grows.holds, cause.holds) == answers
    assert f"here by a factor of {with_interference[1] / with_interference[0]:.1f}" in grows.evidence


def test_fig9b_parts_add_up(smoke):
    delays = smoke("fig9b").tables["delays"]
    columns = [delays[part] for part in ("sharing_s", "download_s", "compute_s", "upload_s")]
    assert [sum(parts) for parts in zip(*columns, strict=True)] == pytest.approx(delays["total_s"], rel=1e-6)
    assert set(where(delays, interference="noise_rise")["method"]) == {"jfvo"}
    assert set(where(delays, interference="concurrent")["method"]) == set(METHODS)
