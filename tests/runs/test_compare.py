"""Comparisons, against SciPy and by hand."""

import math
import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from fedcast import load_scenario, with_overrides
from fedcast.cli.comparison_text import _print_comparison
from fedcast.cost import Delay
from fedcast.errors import FedcastError
from fedcast.runs.comparison import compare, comparison_table, score, targets_table
from fedcast.runs.facts import Facts
from fedcast.runs.seed_statistics import interval, paired_test
from fedcast.runs.strategies import Strategy
from fedcast.training import History, Record

BASE = with_overrides(load_scenario(base="digits"), {"rounds.target_accuracy": 0.5})
ZERO = dict.fromkeys(Facts.__dataclass_fields__, 0.0)


def stored(rule, seed, accuracies, *, sharing_s=0.0, scenario=BASE, algorithm="fedavg"):
    """A run whose rounds take 1 s of download, 2 s of computing and 3 s of upload."""
    records = [
        Record(number, 1.0, 1.0, value, value, value / 2, 0.0, 20, sharing_s + 6.0 * number, 5.0 * number, 7.0 * number)
        for number, value in enumerate(accuracies)
    ]
    facts = Facts(**{**ZERO, "download_s": 1.0, "compute_s": 2.0, "upload_s": 3.0, "sharing_s": sharing_s})
    values = {"clustering.rule": rule, "seed": seed, "training.algorithm": algorithm}
    folder = Path(f"{rule}-{seed}")
    return SimpleNamespace(
        folder=folder,
        scenario=with_overrides(scenario, values),
        facts=facts,
        history=History(records),
        plan=None,
        rule=rule,
        plugin_options={},
    )


def test_a_score_counts_up_to_the_target():
    found = score(stored("daca", 0, [0.1, 0.4, 0.6, 0.55, 0.9], sharing_s=2.0))
    assert found.reached
    assert (found.rounds, found.total_s) == (2, 14.0)
    assert found.delay == Delay(sharing_s=2.0, download_s=2.0, compute_s=4.0, upload_s=6.0)
    assert (found.accuracy, found.worst_accuracy) == (0.9, 0.45)
    assert (found.energy_j, found.sent_bytes) == (10.0, 14.0)


def test_a_target_that_was_not_met_counts_all_rounds():
    found = score(stored("daca", 0, [0.1, 0.2, 0.3]))
    assert not found.reached
    assert (found.rounds, found.total_s) == (2, 12.0)


def test_the_interval_is_that_of_scipy():
    values = [0.91, 0.93, 0.88, 0.95]
    found = interval(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert found.mean - found.half_width == pytest.approx(low, rel=1e-12)
    assert found.mean + found.half_width == pytest.approx(high, rel=1e-12)
    assert interval([2.0]).half_width is None
    with pytest.raises(FedcastError, match="at least one value"):
        interval([])


def test_the_paired_test_is_a_one_sample_test_of_the_differences():
    values, others = [3.0, 5.0, 4.0, 8.0], [2.0, 2.5, 4.5, 6.0]
    assert paired_test(values, others).p_value == pytest.approx(
        stats.ttest_1samp(np.subtract(values, others), 0).pvalue, rel=1e-12
    )
    assert paired_test([1.0], [2.0]).p_value is None
    assert paired_test([1.0, 2.0], [2.0, 3.0]).p_value is None


@pytest.mark.parametrize("step", [0.0, 1e-13])
def test_differences_that_are_equal_up_to_rounding_give_neither_p_value_nor_interval(step):
    found = paired_test([17.3, 21.9 + step], [20.4, 25.0])
    assert found.p_value is found.difference.half_width is None
    assert found.is_degenerate
    assert found.difference.mean == pytest.approx(-3.1)
    assert paired_test([17.3, 21.9 + 1e-6], [20.4, 25.0]).p_value is not None
    runs = [stored(rule, seed, [0.1, 0.6 + gain]) for rule, gain in (("none", 0.0), ("daca", 0.1)) for seed in (0, 1)]
    (_, row) = compare(runs)
    assert row.tests["total_s"].is_degenerate
    assert row.speed_up.half_width is None
    said = StringIO()
    _print_comparison(Console(file=said, width=100), [row], 0.5, {})
    assert re.search(r"p-value of delay, paired +–\n", said.getvalue())
    assert "equal up to rounding" in said.getvalue()


def test_rows_are_paired_by_seed_whatever_the_order_of_runs():
    slow = {0: [0.1, 0.2, 0.3, 0.6], 1: [0.1, 0.2, 0.5, 0.7], 2: [0.1, 0.2, 0.3, 0.4]}
    fast = {2: [0.1, 0.5, 0.6, 0.8], 0: [0.1, 0.6, 0.7, 0.8], 1: [0.1, 0.6, 0.6, 0.9]}
    runs = [stored("daca", seed, course) for seed, course in fast.items()]
    runs += [stored("none", seed, course) for seed, course in slow.items()]
    first, second = compare(runs)
    assert (first.strategy.name, second.strategy.name) == ("FedAvg", "daca")
    assert (first.reached, second.reached) == (2, 3)
    assert second.seeds == (0, 1, 2)
    # FedAvg met the target on seeds 0 and 1 alone: 18 s against 6 s, and 12 s against 6 s.
    assert second.speed_up.mean == pytest.approx(math.sqrt(3 * 2), rel=1e-12)
    assert second.speed_up.count == 2
    assert second.speed_up_seeds == "2 of 3 seeds"
    assert second.speed_up_text() == f"{second.speed_up.text()} (2 of 3 seeds)"
    assert (first.speed_up_seeds, first.speed_up_text()) == ("2 of 3 seeds", f"{first.speed_up.text()} (2 of 3 seeds)")
    (alone,) = compare([run for run in runs if run.rule == "daca"])
    assert (alone.speed_up_seeds, alone.speed_up_text()) == (None, "")
    # Logarithms of 3 and 2 around their mean, t = 12.706 with one degree of freedom; back as a share of the mean.
    wide = 12.7062 * (math.log(3) - math.log(2)) / 2
    assert second.speed_up.half_width == pytest.approx(math.sqrt(6) * (math.exp(wide) - math.exp(-wide)) / 2, rel=1e-4)
    assert second.tests["rounds"].difference.mean == pytest.approx(-1.5)
    assert second.tests["accuracy"].difference.mean == pytest.approx((0.2 + 0.2 + 0.4) / 3)
    assert second.tests["accuracy"].p_value == pytest.approx(
        stats.ttest_rel([0.8, 0.9, 0.8], [0.6, 0.7, 0.4]).pvalue, rel=1e-12
    )
    assert first.tests == {}


def test_other_targets_need_no_other_runs():
    """Rounds take 6 s: by hand."""
    runs = [stored("none", seed, course) for seed, course in enumerate(([0.1, 0.3, 0.6, 0.7], [0.1, 0.5, 0.6, 0.6]))]
    runs += [stored("daca", seed, course) for seed, course in enumerate(([0.1, 0.7, 0.8, 0.9], [0.1, 0.6, 0.7, 0.7]))]
    assert score(runs[0]).rounds == 2
    assert (score(runs[0], target=0.3).rounds, score(runs[0], target=0.9).reached) == (1, False)
    table = targets_table(runs, [0.3, 0.65, 0.9])
    assert table["target"] == [0.3, 0.3, 0.65, 0.65, 0.9, 0.9]
    assert table["strategy"] == ["FedAvg", "daca"] * 3
    assert table["reached"] == [2, 2, 1, 2, 0, 1]
    assert table["censored"] == [False, False, True, False, True, True]
    assert table["rounds"] == [1.0, 1.0, 3.0, 1.5, 3.0, 3.0]
    assert table["total_s"] == [6.0, 6.0, 18.0, 9.0, 18.0, 18.0]
    assert [half is None for half in table["rounds_half_width"]] == table["censored"]
    # Over the one seed in which both reach 0.65: 18 s against 6 s.
    assert table["speed_up"][3] == pytest.approx(3.0)


def test_a_lower_bound_has_no_interval():
    runs = [stored("none", seed, course) for seed, course in enumerate(([0.1, 0.6], [0.1, 0.2]))]
    screen = Console(file=StringIO(), width=100)
    _print_comparison(screen, compare(runs), 0.5, {0.15: compare(runs, target=0.15)})
    printed = screen.file.getvalue().replace("\u00a0", " ").splitlines()
    lines = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in printed if line}
    assert lines["rounds to 50 %"] == "> 1"
    # What is summed up to the target is bounded too; what does not depend on it is not.
    for title in ("delay", "energy", "sent", "compute", "download", "upload"):
        (line,) = (line for line in printed if line.split("  ")[0] == title or line.startswith(f"  {title} "))
        assert re.search(r" > [0-9.]+ \w+$", line), line
    assert lines["accuracy"] == "40.0 % ± 254.1"
    table = comparison_table(compare(runs))
    assert (table["energy_j"], table["energy_j_half_width"]) == ([5.0], [None])
    assert table["accuracy_half_width"][0] == pytest.approx(2.541, abs=1e-3)
    assert lines["rounds to 15 %"] == "1 ± 0"
    assert lines["delay to 15 %"] == "6 s ± 0"


def test_without_fedavg_there_is_nothing_to_be_faster_than():
    (row,) = compare([stored("daca", 0, [0.1, 0.6])])
    assert row.speed_up is None
    assert row.tests == {}


def test_the_table_has_a_row_per_strategy_and_no_nan():
    table = comparison_table(compare([stored("daca", 0, [0.1, 0.6]), stored("none", 0, [0.1, 0.2])]))
    assert table["strategy"] == ["FedAvg", "daca"]
    assert table["reached"] == [0, 1]
    assert {len(values) for values in table.values()} == {2}
    assert (table["rounds"], table["rounds_half_width"]) == ([None, 1.0], [None, None])
    assert table["total_s"][0] is None
    assert table["total_s"][1] > 0
    assert not any(isinstance(value, float) and math.isnan(value) for values in table.values() for value in values)


def test_runs_that_differ_in_anything_else_are_not_compared():
    other = stored("daca", 0, [0.1, 0.6], scenario=with_overrides(BASE, {"training.learning_rate": 0.2}))
    with pytest.raises(FedcastError, match=r"daca-0: training.learning_rate = 0.2, but none-0 has 0.4"):
        compare([stored("none", 0, [0.1, 0.6]), other])
    with pytest.raises(FedcastError) as error:
        compare([stored("none", 0, [0.1]), other, stored("daca", 1, [0.1])])
    assert str(error.value).splitlines()[1:] == ["  none-0 daca-1", "  daca-0"]
    with pytest.raises(FedcastError, match="no runs to compare"):
        compare([])


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (Strategy("none", "saa", "fedavg"), "FedAvg"),
        (Strategy("none", "jfvo", "scaffold"), "scaffold"),
        (Strategy("daca", "jfvo", "fedavg"), "daca"),
        (Strategy("blend", "saa", "fedprox"), "blend saa fedprox"),
        (Strategy("central", "saa", "fedavg"), "central saa"),
        (Strategy("blend", "jfvo", "fedavg", "work_control"), "blend, work control"),
        (Strategy("blend", "fixed", "scaffold", "epochs_control"), "blend fixed scaffold, epochs control"),
        (Strategy("blend", "jfvo", "fedavg", "synthetic"), "blend synthetic"),
    ],
)
def test_names_of_strategies(strategy, name):
    assert strategy.name == name
