"""Deadlines, over-selection, dropouts and asynchronous training from the scenario to the stored run."""

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.plan import make_plan
from fedcast.report import write_report
from fedcast.runs import (
    attendance,
    attendance_table,
    attendance_text,
    load_run,
    prepare_run,
    run_scenario,
    runs_table,
    shown_counts,
    train_scenario,
)
from fedcast.scenario import load_scenario, with_overrides

FEW = {
    "data.num_users": 12, "training.local_epochs": 1, "training.rounds": 6, "training.model": "mlp",
    "rounds.target_accuracy": 0.8,
}  # fmt: skip


def scenario(rule="cec", **changes):
    values = FEW | {"clustering.rule": rule} | {f"training.{name}": value for name, value in changes.items()}
    return load_scenario(base="digits", overrides=[f"{key}={value}" for key, value in values.items()])


OPTIONS = {
    "deadline": {"deadline_s": 0.55},
    "first": {"participation": 0.5, "over_selection": 0.5, "dropout_probability": 0.1},
    "asynchronous": {"buffer_size": 3, "concurrency": 6},
}


@pytest.mark.parametrize("rule", ["none", "cec"])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_plan_costs_what_is_trained(name, rule):
    """Mean delay, energy and bytes of the rounds of a history are those of the plan's round."""
    run = train_scenario(scenario(rule, **OPTIONS[name]))
    first, last = run.history.records[0], run.history.records[-1]
    plan, rounds = run.plan, last.round
    assert last.seconds - first.seconds == pytest.approx(rounds * plan.round_s)
    assert last.energy_j - first.energy_j == pytest.approx(rounds * plan.round_j)
    assert last.bytes_sent - first.bytes_sent == pytest.approx(rounds * plan.round_bytes)
    assert plan.delay is None if name == "asynchronous" else plan.delay_s is not None
    expected, records = run.cost.round.expected, run.history.records[1:]
    assert expected.counted == pytest.approx(np.mean([record.participants for record in records]))
    for column in ("missed", "surplus", "dropped_out"):
        assert getattr(expected, column) == pytest.approx(np.mean([getattr(record, column) for record in records]))
    if name == "asynchronous":
        assert expected.staleness == pytest.approx(np.mean([record.staleness for record in records]))


def test_a_deadline_is_the_delay_of_a_round():
    """By the times of all users: some are slower than the deadline, and the round lasts as long as it."""
    planned = prepare_run(scenario(**OPTIONS["deadline"]))
    times = planned.cost.round.user_s
    late = int((times > 0.55).sum())
    assert 0 < late < 12
    assert planned.plan.round_s == pytest.approx(0.55)
    assert planned.plan.round_j == pytest.approx(planned.plan.energy_j.sum())
    assert any(f"{late} user" in note and "never count" in note for note in planned.plan.notes)
    generous = make_plan(scenario(deadline_s=1000.0), with_curve=False)
    usual = make_plan(scenario(), with_curve=False)
    assert (generous.round_s, generous.round_j) == (pytest.approx(usual.round_s), pytest.approx(usual.round_j))


def test_local_epochs_that_make_users_late_are_not_chosen():
    """Every round costs the deadline: more epochs would look better the fewer users finish them in time."""
    chosen = make_plan(scenario(local_epochs="[1,2,8]", deadline_s=0.45), with_curve=False)
    assert (chosen.local_epochs, chosen.best_without.local_epochs) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deadline_s": 0.001}, r"0.001 for training.deadline_s: every user takes longer, the fastest 0\.\d"),
        ({"over_selection": 0.5}, "for training.over_selection: 18 users would be invited, and 12 hold samples"),
        ({"participation": 0.5, "over_selection": 1.5}, "expected at most 1, or lower training.participation"),
        ({"dropout_probability": 1.0}, "training.dropout_probability"),
        ({"buffer_size": 3, "algorithm": "scaffold"}, "training.algorithm = scaffold: it reads the updates or states"),
        ({"concurrency": 3}, "training.concurrency: only asynchronous training has it; set training.buffer_size"),
    ],
)  # fmt: skip
def test_invalid_options_are_found_before_training(changes, message):
    with pytest.raises(FedcastError, match=message):
        make_plan(scenario(**changes), with_curve=False)


def test_uploads_that_share_a_band_have_no_times_of_single_users():
    changes = FEW | {"training.buffer_size": 3, "cellular.uplink": "waves"}
    with pytest.raises(FedcastError, match=r"cellular.uplink = waves: .* set it to parallel for training.deadline_s"):
        make_plan(load_scenario(base="digits", overrides=[f"{key}={value}" for key, value in changes.items()]))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two strategies on two seeds, with a deadline and dropouts."""
    store, options = tmp_path_factory.mktemp("runs"), {"deadline_s": 0.45, "dropout_probability": 0.2, "rounds": 3}
    chosen = [with_overrides(scenario(rule, **options), {"seed": seed}) for rule in ("none", "cec") for seed in (0, 1)]
    return [load_run(run_scenario(one, store)) for one in chosen]


def test_lost_updates_of_strategies_by_hand(stored):
    rows = attendance(stored)
    assert [row.strategy.name for row in rows] == ["FedAvg", "cec"]
    table, runs = attendance_table(rows), runs_table(stored)
    for place, rule in enumerate(("none", "cec")):
        own = [run for run in stored if run.rule == rule]
        for name, column in {"missed": "missed", "dropped_out": "dropped_out", "updates": "participants"}.items():
            counted = [sum(run.history.column(column)) for run in own]
            assert table[name][place] == np.mean(counted) > 0
            assert runs[name][2 * place : 2 * place + 2] == counted
    assert shown_counts(rows) == ["updates", "missed", "dropped_out"]
    assert attendance_text(stored[0].history).startswith("updates that counted: ")


def test_the_report_has_them(stored, tmp_path):
    text = write_report(stored, tmp_path / "report.html").read_text()
    section = text[text.index("Who took part") :]
    section = section[: section.index("</figure>")]
    assert "missed the deadline" in section
    assert "staleness" not in section
    cells = section[section.index("FedAvg") :].split("<td>")[1:]
    for cell, column in zip(cells, ("participants", "missed", "dropped_out"), strict=False):
        mean = np.mean([sum(run.history.column(column)) for run in stored if run.rule == "none"])
        assert float(cell[: cell.index("<")]) == pytest.approx(mean, rel=0.01)


def test_runs_in_which_all_take_part_have_no_such_table(tmp_path):
    run = load_run(run_scenario(scenario(rounds=1), tmp_path))
    assert attendance([run]) == []
    assert "missed" not in runs_table([run])
    assert "Who took part" not in write_report([run], tmp_path / "report.html").read_text()
