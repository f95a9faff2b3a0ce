"""The command fedcast reproduce."""

import json
from pathlib import Path

import pytest
import torch

from fedcast.cli.app import run
from fedcast_paper import Result, load_result, result_path, save_result

STORED = Path(__file__).parents[2] / "results"


@pytest.fixture
def fedcast(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = run(["reproduce", *words])
        captured = capsys.readouterr()
        return code, " ".join(captured.out.split()), captured.err

    return call


def test_a_figure_its_result_and_verdicts(fedcast, tmp_path):
    code, out, err = fedcast("fig7b", "--seeds", "2", "--format", "svg")
    assert code == 0, err
    assert "fig7b: out/reproduce/fig7b.svg, results/smoke/fig7b.json" in out
    assert out.startswith("smoke scale: small worlds, and digits instead of every dataset; verdicts mean nothing")
    assert "JFVO converges within 6 iterations at every SNR" in out
    assert json.loads((tmp_path / "results/smoke/fig7b.json").read_text())["assumptions"]["seeds"] == [2]
    code, out, _ = fedcast("--list")
    assert code == 0
    assert "convergence and leakage of JFVO at 10, 15, 20 dB CPU smoke" in out
    assert "running time of JFVO, SMM and SAA against users CPU –" in out


def test_redraw_computes_nothing(fedcast, tmp_path, monkeypatch):
    assert fedcast("fig7b", "--seeds", "0")[0] == 0
    before = (tmp_path / "results/smoke/fig7b.json").read_bytes()
    (tmp_path / "out/reproduce/fig7b.png").unlink()
    monkeypatch.setattr("fedcast_paper.make_result", lambda *_: pytest.fail("it was computed"))
    assert fedcast("fig7b", "--redraw")[0] == 0
    assert (tmp_path / "out/reproduce/fig7b.png").exists()
    assert (tmp_path / "results/smoke/fig7b.json").read_bytes() == before


def test_a_result_of_the_other_scale_is_suggested(fedcast):
    code, _, err = fedcast("fig5", "--redraw", "--results", str(STORED))
    assert code == 2
    assert f"run `fedcast reproduce fig5 --scale smoke --results {STORED}` to compute it, or use --scale full" in err


def test_what_is_missing_is_printed(fedcast):
    code, out, err = fedcast("fig4", "--redraw", "--scale", "full", "--results", str(STORED))
    assert code == 0, err
    assert "Not run: MNIST, 80 % one-class users: all" in out


def test_full_scale_says_what_the_pages_say(fedcast):
    code, out, err = fedcast("fig7b", "--redraw", "--scale", "full", "--results", str(STORED))
    assert code == 0, err
    assert out.startswith("fig7b: out/reproduce/fig7b.png")
    words = {"yes": "holds", "partly": "partly holds", "no": "does not hold", "open": "inconclusive"}
    for verdict in load_result("fig7b", "full", STORED).verdicts:
        assert f" {words[verdict.holds]}: {verdict.claim}; " in out
    assert "(smoke)" not in out


@pytest.fixture
def stored_with_two_seeds(tmp_path):
    """A result of each kind at full scale, of seeds 0 and 1; returns where one is."""
    for name, seeds in (("fig7b", [0, 1]), ("fig1c", "0, 1")):
        save_result(Result({"t": {"x": [1]}}, {}, {"seeds": seeds}), name, "full", tmp_path / "results")
    return lambda name: result_path(name, "full", tmp_path / "results")


@pytest.mark.parametrize(
    ("seeds", "lost", "kept"), [("0", "1", "0-1"), ("1-2", "0", "0-2"), ("5", "0-1", "0-1,5"), ("0,0", "1", "0-1")]
)
@pytest.mark.parametrize("name", ["fig7b", "fig1c"])
def test_no_seed_of_a_full_result_is_lost_unasked(fedcast, stored_with_two_seeds, monkeypatch, name, seeds, lost, kept):
    monkeypatch.setattr("fedcast_paper.make_result", lambda *_, **__: pytest.fail("work was done"))
    before = stored_with_two_seeds(name).read_bytes()
    code, out, err = fedcast(name, "--scale", "full", "--seeds", seeds, "--workers", "2")
    assert (code, out) == (2, "")
    path = stored_with_two_seeds(name).relative_to(Path.cwd())
    assert err == (
        f"fedcast: {path}: replacing it would lose seeds {lost} of its seeds 0-1; "
        f"use --seeds {kept} to keep them, or --drop-seeds\n"
    )
    assert stored_with_two_seeds(name).read_bytes() == before


def test_seeds_are_lost_if_asked_for(fedcast, stored_with_two_seeds, tmp_path):
    code, _, err = fedcast("fig7b", "--scale", "full", "--seeds", "1", "--drop-seeds")
    assert code == 0, err
    assert load_result("fig7b", "full", tmp_path / "results").assumptions["seeds"] == [1]


@pytest.mark.parametrize(
    ("words", "device", "said"),
    [
        (["fig1c"], "cpu", "to train: 15 runs (mnist none: 5, mnist random: 10), 1,500 rounds on this CPU"),
        (
            ["fig1c", "fig7a", "--seeds", "8"],
            "cpu",
            "to train: 3 runs (mnist none: 1, mnist random: 2), 300 rounds on this CPU",
        ),
        (["fig1c"], "cuda", ""),
        (["fig1c", "--finished"], "cpu", ""),
        (["fig7a"], "cpu", ""),
    ],
)
def test_training_on_a_cpu_is_announced(fedcast, monkeypatch, words, device, said):
    monkeypatch.setattr("fedcast.training.choose_device", lambda _: torch.device(device))
    monkeypatch.setattr("fedcast_paper.command._reproduce_one", lambda *_, **__: None)
    code, out, err = fedcast(*words, "--scale", "full")
    assert code == 0, err
    assert out.startswith(said)
    assert ("use --pack FOLDER to train elsewhere" in out) == bool(said)
    assert bool(out) == bool(said)


def test_a_pack_says_how_to_go_on_and_comes_back(fedcast, tmp_path):
    code, out, err = fedcast("fig1c", "--pack", "pack")
    assert code == 0, err
    assert "3 runs packed in pack (digits none: 1, digits random: 2);" in out
    assert "python -m fedcast.training.packed pack OUT" in out
    from fedcast.training.packed import train_pack

    assert train_pack(tmp_path / "pack", tmp_path / "back")
    code, out, err = fedcast("fig1c", "--unpack", "back", "--finished", "--only", "seed=0")
    assert code == 0, err
    assert "3 runs imported from back" in out
    assert fedcast("fig1c", "--pack", "again")[2].startswith(
        "fedcast: nothing to pack: all training runs are finished for fig1c"
    )
    assert not (tmp_path / "again").exists()


def test_only_the_runs_that_are_asked_for_are_trained_or_packed(fedcast, tmp_path):
    code, _, err = fedcast("table2", "--only", "clustering.rule=none,scc", "--only", "data.alpha=0.1")
    assert code == 0, err
    runs = load_result("table2", "smoke", tmp_path / "results").tables["runs"]
    assert set(runs["rule"]) == {"none", "scc"}
    assert set(runs["partition"]) == {"Dir 0.1"}
    rest = ("--only", "clustering.rule=scc,daca", "--only", "data.dirichlet.alpha=0.1,1", "--only", "sharing.kind=raw")
    code, out, err = fedcast("table2", *rest, "--pack", "pack")
    assert code == 0, err
    assert out.startswith("5 runs packed in pack")  # DACA at three volumes, and both at Dir 1
    code, _, err = fedcast("table2", "--only", "clustering.rule=none", "--only", "data.alpha=0.1", "--pack", "again")
    assert err.startswith("fedcast: nothing to pack: all training runs of --only are finished for table2")


def test_pages_are_written_after_the_results_that_they_show(fedcast, tmp_path):
    code, out, err = fedcast("fig7b", "--scale", "full", "--seeds", "0", "--pages", "docs")
    assert code == 0, err
    assert out.endswith("docs/results.md docs/claims.md")
    assert (tmp_path / "docs/images/results/fig7b.png").exists()


def test_all_means_all(fedcast, monkeypatch):
    from fedcast_paper import REPRODUCTIONS

    asked = []
    monkeypatch.setattr("fedcast_paper.command._reproduce_one", lambda _, name, *__, **___: asked.append(name))
    assert fedcast("all")[0] == 0
    assert asked == list(REPRODUCTIONS)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fig7"], "invalid ID 'fig7': no such figure or table; did you mean fig7"),
        ([], "missing ID: expected one or more of"),
        (["fig5", "--seeds", "1-x"], "expected whole numbers and ranges, for example 0-4,9"),
        (["fig5", "--seeds", "1-2-3"], "expected whole numbers and ranges"),
        (["fig5", "--scale", "huge"], "'huge' is not one of 'smoke', 'full'"),
        (["fig5", "--redraw", "--scale", "full"], "results/full/fig5.json: no stored result"),
        (["all", "fig99"], "invalid ID 'fig99'"),
        (["TABLE2"], "did you mean table2?"),
        (["fig5", "--seeds", "3-1"], "expected whole numbers and ranges"),
        (["fig5", "--seeds", ""], "expected whole numbers and ranges"),
        (["fig5", "--seeds", "-1"], "expected whole numbers and ranges"),
        (["fig5", "--seeds", "1000000000000000000000"], "none above 9223372036854775807"),
        (["fig5", "--seeds", "0-1000"], "at most 1,000 seeds"),
        (["fig5", "--seeds", "0-18446744073709551615"], "at most 1,000 seeds"),
        (["fig5", "--redraw", "--seeds", "0"], "--seeds has no effect with --redraw"),
        (["fig5", "--redraw", "--pack", "p"], "--pack has no effect with --redraw"),
        (["fig4", "--pack", "p", "--finished"], "--finished has no effect with --pack"),
        (["fig4", "--only", "seed=0", "--finished"], "--only has no effect with --finished"),
        (["fig4", "--only", "seed"], "--only seed: expected KEY=V,…"),
        (["fig4", "--only", "seed=0,9"], "--only seed=9: no training run of fig4 has it; there are 0"),
        (["fig4", "--only", "data.datset=mnist"], "no training run of fig4 sets it; did you mean data.dataset?"),
        (
            ["table2", "--only", "alpha=1"],
            "sets it; did you mean data.dirichlet.alpha? Runs differ in data.dirichlet.alpha, ",
        ),
        (["fig1c", "--only", "nothing=1"], "of fig1c sets it; runs differ in clustering.rule"),
        (["--list", "--results", "mine"], "--results mine: no such folder; expected a folder of results"),
        (["fig5", "--redraw", "--results", "mine"], "--results mine: no such folder"),
        (["--pages", "docs", "--results", "mine"], "--results mine: no such folder"),
        (["fig7a", "--only", "seed=0"], "--only: no training is needed for fig7a; omit it"),
        (["fig7a", "--pack", "p"], "nothing to pack: no training is needed for fig7a"),
        (["--pack", "p", "--pages", "docs"], "missing ID: expected one or more of"),
        (["--pages", "docs"], "results/full: no stored result"),
        (["--unpack", "away"], "does not exist"),
    ],
)
def test_errors_are_one_line_and_code_2(fedcast, words, part):
    code, out, err = fedcast(*words)
    assert (code, out) == (2, "")
    assert part in err
    assert len(err.splitlines()) == 1
    assert not list(Path().iterdir())


def test_seeds_are_numbers_and_ranges():
    from fedcast_paper.command import _seeds

    assert _seeds("0-2,9,1") == (0, 1, 2, 9)
    assert _seeds("9223372036854775807") == (2**63 - 1,)
    assert len(_seeds("0-999")) == 1000
    assert _seeds(None) is None


def test_help_fits_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["reproduce", "--help"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) <= 24
    assert max(len(line.rstrip()) for line in lines) <= 80
