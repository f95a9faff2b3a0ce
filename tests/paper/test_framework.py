"""Jobs, results on disk, the table, and what every reproduction that needs no training must do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedcast.errors import FedcastError
from fedcast.scenario import Scenario
from fedcast_paper import (
    REPRODUCTIONS,
    SCALES,
    Job,
    Result,
    Verdict,
    draw_result,
    find_reproduction,
    load_result,
    make_result,
    result_path,
    save_result,
)
from fedcast_paper.reproduction_result import columns_of, origin, where
from fedcast_paper.reproductions import check_seeds, seeds_of

PLANNED = [name for name, one in REPRODUCTIONS.items() if not one.trains]
STORED = Path(__file__).parents[2] / "results"


def small_result():
    rows = [{"method": "jfvo", "delay_s": 1 / 3}, {"method": "saa", "delay_s": 2.0}]
    verdict = Verdict("it falls", "partly", "1 of 2")
    return Result({"delays": columns_of(rows)}, {"seed": 0}, {"seeds": [0, 1]}, (verdict,), ("a note",))


def test_a_result_comes_back_as_it_was_stored(tmp_path):
    stored = save_result(small_result(), "fig8", "full", tmp_path)
    assert load_result("fig8", "full", tmp_path) == stored
    assert stored.made_by["fedcast"]
    assert stored.tables["delays"] == {"method": ["jfvo", "saa"], "delay_s": [0.3333333, 2.0]}
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["fig8.json"]


def test_a_stored_result_is_json_with_a_line_for_each_column(tmp_path):
    save_result(small_result(), "fig8", "full", tmp_path)
    text = result_path("fig8", "full", tmp_path).read_text()
    assert json.loads(text)["assumptions"] == {"seeds": [0, 1]}
    assert '   "delay_s": [0.3333333, 2.0]\n' in text


def test_no_nan_is_stored(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_result(Result({"t": {"x": [float("nan")]}}, {}, {}), "fig8", "full", tmp_path)
    assert not result_path("fig8", "full", tmp_path).exists()


def test_columns_must_agree():
    with pytest.raises(ValueError, match="table t: expected one or more columns of equal length"):
        Result({"t": {"x": [1], "y": []}}, {}, {})


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "no stored result"),
        ("{", "invalid JSON"),
        ("[]", "expected a result of fig8"),
        ('{"format": 0}', "in format 1"),
    ],
)
def test_a_result_that_cannot_be_read_says_how_to_make_it(tmp_path, content, part):
    if content is not None:
        path = result_path("fig8", "full", tmp_path)
        path.parent.mkdir()
        path.write_text(content)
    with pytest.raises(FedcastError, match=part) as error:
        load_result("fig8", "full", tmp_path)
    assert f"run `fedcast reproduce fig8 --scale full --results {tmp_path}` to compute it" in str(error.value)


def test_where_keeps_rows_that_match_everything():
    table = {"a": [1, 1, 2], "b": ["x", "y", "x"]}
    assert where(table, a=1, b="x") == {"a": [1], "b": ["x"]}
    assert where(table, a=3) == {"a": [], "b": []}


def test_every_step_is_reported():
    seen = []
    assert list(Job(progress=lambda *state: seen.append(state)).each("ab")) == ["a", "b"]
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_an_unknown_id_suggests_the_closest():
    with pytest.raises(
        FedcastError, match=r"invalid ID 'fig7': no such figure or table; did you mean fig7[ab]\? Choose from fig"
    ):
        find_reproduction("fig7")


@pytest.mark.parametrize(("name", "meant"), [("TABLE2", "table2"), ("Fig7A", "fig7a"), ("ALL", "all")])
def test_large_letters_are_no_hindrance_to_a_hint(name, meant):
    with pytest.raises(FedcastError, match=f"did you mean {meant}\\?"):
        find_reproduction(name)


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_stored_result_says_its_seeds(name):
    assert min(seeds_of(load_result(name, "full", STORED))) == 0


def stored(folder, name, seeds):
    save_result(Result({"t": {"x": [1]}}, {}, {"seeds": seeds}), name, "full", folder)


def test_own_seeds_that_are_fewer_than_stored_replace_nothing(tmp_path, monkeypatch):
    stored(tmp_path, "fig7b", [0, 99])
    computed = replace(REPRODUCTIONS["fig7b"], data=lambda _: small_result())
    monkeypatch.setitem(REPRODUCTIONS, "fig7b", computed)
    with pytest.raises(FedcastError, match=r"would lose seeds 99 of its seeds 0,99; use --seeds 0-1,99 to keep them"):
        make_result("fig7b", Job("full"), tmp_path)
    assert seeds_of(load_result("fig7b", "full", tmp_path)) == {0, 99}
    make_result("fig7b", Job("full"), tmp_path, drop_seeds=True)
    assert seeds_of(load_result("fig7b", "full", tmp_path)) == {0, 1}


def test_a_result_does_not_lose_single_runs_unasked(tmp_path, monkeypatch):
    rows = [{"rule": rule, "seed": seed, "accuracy": 0.9 + seed / 100} for rule in ("daca", "scc") for seed in (0, 1)]

    def made_of(some):
        result = Result({"runs": columns_of(some)}, {}, {"seeds": [0, 1]})
        monkeypatch.setitem(REPRODUCTIONS, "fig4", replace(REPRODUCTIONS["fig4"], data=lambda _: result))
        return result

    made_of(rows)
    make_result("fig4", Job("full"), tmp_path)
    made_of([*rows[:1], {**rows[1], "accuracy": 0.95}, *rows[2:]])  # another number of the same run
    make_result("fig4", Job("full"), tmp_path)
    made_of(rows[:3])
    with pytest.raises(
        FedcastError, match=r"fig4.json: replacing it would lose 1 run \(scc, seed 1\); omit --finished"
    ):
        make_result("fig4", Job("full"), tmp_path)
    assert load_result("fig4", "full", tmp_path).tables["runs"]["seed"] == [0, 1, 0, 1]
    make_result("fig4", Job("full"), tmp_path, drop_seeds=True)
    assert load_result("fig4", "full", tmp_path).tables["runs"]["seed"] == [0, 1, 0]


@pytest.mark.parametrize(
    ("fewer", "lost"),
    [
        ({"setting": ["Dir 1"], "rule": ["daca"], "seeds": [2]}, r"3 runs \(Dir 1, daca; Dir 10, daca; Dir 10, daca\)"),
        ({"setting": ["Dir 1", "Dir 10"], "rule": ["daca", "daca"], "seeds": [3, 1]}, r"1 run \(Dir 10, daca\)"),
    ],
)
def test_a_result_that_counts_its_seeds_does_not_lose_runs_unasked(tmp_path, monkeypatch, fewer, lost):
    def made_of(table):
        result = Result({"strategies": table}, {}, {"seeds": [0, 1, 2]})
        monkeypatch.setitem(
            REPRODUCTIONS, "beyond-rounds", replace(REPRODUCTIONS["beyond-rounds"], data=lambda _: result)
        )

    made_of({"setting": ["Dir 1", "Dir 10"], "rule": ["daca", "daca"], "seeds": [3, 2]})
    make_result("beyond-rounds", Job("full"), tmp_path)
    made_of(fewer)
    with pytest.raises(FedcastError, match=f"beyond-rounds.json: replacing it would lose {lost}"):
        make_result("beyond-rounds", Job("full"), tmp_path)
    # At smoke scale results come and go.
    make_result("beyond-rounds", Job("smoke"), tmp_path)


def test_runs_that_are_not_finished_count_as_lost(tmp_path):
    stored(tmp_path, "fig1c", "0, 1")
    check_seeds(["fig1c"], Job("full", seeds=(0, 1, 2), store=tmp_path / "runs"), tmp_path)
    job = Job("full", seeds=(0, 1, 2), store=tmp_path / "runs", only_finished=True)
    with pytest.raises(
        FedcastError, match="would lose seeds 0-1 of its seeds 0-1; use --seeds 0-1 to keep them if their runs are fin"
    ):
        check_seeds(["fig1c"], job, tmp_path)


@pytest.mark.parametrize("content", ["{", '{"format": 0}'])
def test_an_unreadable_result_keeps_nobody_from_making_it_anew(tmp_path, content):
    stored(tmp_path, "fig7b", [0, 1])
    result_path("fig7b", "full", tmp_path).write_text(content)
    check_seeds(["fig7b"], Job("full", seeds=(7,)), tmp_path)


def test_smoke_results_come_and_go(tmp_path):
    save_result(Result({"t": {"x": [1]}}, {}, {"seeds": [0, 1]}), "fig7b", "smoke", tmp_path)
    check_seeds(["fig7b"], Job("smoke", seeds=(7,)), tmp_path)


@pytest.mark.parametrize(("name", "caption"), [("fig7b", "smoke: few users, few seeds"), ("fig1c", "smoke: digits, 8")])
def test_a_picture_at_smoke_scale_says_so(tmp_path, name, caption):
    result = load_result(name, "full", STORED)
    scenario = {**result.scenario, "data": {"dataset": "digits", "num_users": 8}, "training": {"rounds": 3}}
    at_smoke = draw_result(name, replace(result, scenario=scenario), tmp_path / "smoke", "svg", scale="smoke")
    assert f">{caption}" in at_smoke.read_text()
    assert ">smoke" not in draw_result(name, result, tmp_path / "full", "svg").read_text()


def test_results_name_the_commit():
    assert {"fedcast", "commit", "numpy"} <= set(origin())


@pytest.mark.parametrize("name", PLANNED)
def test_smoke_makes_a_result_and_a_picture(smoke, tmp_path, name):
    result = smoke(name)
    stored = save_result(result, name, "smoke", tmp_path)
    assert load_result(name, "smoke", tmp_path) == stored
    assert result.verdicts
    assert "seeds" in result.assumptions or "seed" in result.assumptions
    Scenario.model_validate(result.scenario)
    picture = draw_result(name, load_result(name, "smoke", tmp_path), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["fig5", "fig7b", "fig9a"])
def test_the_same_seeds_give_the_same_result(smoke, name, tmp_path):
    again = make_result(name, Job("smoke"), tmp_path)
    assert again.tables == smoke(name).tables
    assert again.verdicts == smoke(name).verdicts


def test_seeds_asked_for_are_used(tmp_path):
    result = make_result("fig7b", Job("smoke", seeds=(3,)), tmp_path)
    assert set(result.tables["end"]["seed"]) == {3}
    assert result.assumptions["seeds"] == [3]


@pytest.mark.parametrize("name", PLANNED)
def test_the_full_result_is_stored_and_can_be_drawn(name, tmp_path):
    result = load_result(name, SCALES[-1], STORED)
    assert result.made_by["commit"]
    assert draw_result(name, result, tmp_path, "svg").stat().st_size > 5_000
