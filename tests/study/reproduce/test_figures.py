"""The figures that need no training, against plain loops, SciPy, CVXPY and values of the specification."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.allocation import METHODS as FINDERS
from fedcast.allocation import engine
from fedcast.errors import FedcastError
from fedcast.study.reproduce import by_cvxpy, fig8
from fedcast.study.reproduce.measures import converged_after, excess_over_jfvo, lower_verdict, rank_correlation
from fedcast.study.reproduce.planning import INTERFERING, METHODS, make_task, paper_scenario, problem_of
from fedcast.study.reproduce.result import where

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
    answers = [lower_verdict(rows(*both), "delay_s").holds for both in ((11, 12), (11, 10), (10, 10), (11, 9))]
    assert answers == ["yes", "partly", "no", "no"]


def test_rank_correlation_by_the_definition():
    draw = np.random.default_rng(0)
    first, second = draw.permutation(30), draw.permutation(30)
    by_hand = 1 - 6 * ((first - second) ** 2).sum() / (30 * (30**2 - 1))
    assert rank_correlation(first, second).correlation == pytest.approx(by_hand)
    assert rank_correlation([1, 2], [3, 4]).p_value == 1.0, "two pairs prove nothing"


def test_fig7b_download_and_upload_by_the_ergodic_rate(smoke):
    end = smoke("fig7b").tables["end"]
    for snr_db, efficiency in ERGODIC.items():
        rows = where(end, snr_db=snr_db)
        assert rows["download_s"] == pytest.approx([CNN_BITS / (20e6 * efficiency)] * len(rows["seed"]), rel=1e-6)
        assert rows["upload_s"] == pytest.approx([CNN_BITS / (1e6 * efficiency)] * len(rows["seed"]), rel=1e-6)


def test_fig8_cvxpy_minimises_what_fedcast_minimises():
    """Every surrogate of a real search, solved by both: fedcast is never worse, CVXPY never by much."""
    problem = problem_of(make_task(paper_scenario(50, 0)))
    feasible, own = problem.feasible, engine.minimise
    theirs = by_cvxpy.cvxpy_minimiser(feasible)
    compared = []

    def value(surrogate, x):
        linear, square = surrogate.linear @ x, surrogate.curvature @ x**2 / 2
        round_s = feasible.delay.at(x * feasible.sizes)
        return surrogate.sharing_weight * max(x / feasible.rate) + surrogate.round_weight * round_s + linear + square

    def both(surrogate, _):
        values = [value(surrogate, minimiser(surrogate, feasible)) for minimiser in (own, theirs)]
        compared.append((values[0] - values[1]) / abs(values[1]))
        return own(surrogate, feasible)

    with by_cvxpy.minimised_by(both):
        FINDERS["jfvo"].find(problem)
    assert engine.minimise is own
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


def test_fig8_without_cvxpy_says_how_to_get_it(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(by_cvxpy, "import_module", absent)
    with pytest.raises(FedcastError, match="pip install cvxpy"):
        by_cvxpy.load_cvxpy()


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


def test_fig9b_parts_add_up(smoke):
    delays = smoke("fig9b").tables["delays"]
    columns = [delays[part] for part in ("sharing_s", "download_s", "compute_s", "upload_s")]
    assert [sum(parts) for parts in zip(*columns, strict=True)] == pytest.approx(delays["total_s"], rel=1e-6)
    assert set(where(delays, interference="noise_rise")["method"]) == {"jfvo"}
    assert set(where(delays, interference="concurrent")["method"]) == set(METHODS)
