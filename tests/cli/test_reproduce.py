"""fedcast reproduce, as a person uses it."""

import json

import pytest

from fedcast.cli.app import run


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
    monkeypatch.setattr("fedcast.study.reproduce.make_result", lambda *_: pytest.fail("it was computed"))
    assert fedcast("fig7b", "--redraw")[0] == 0
    assert (tmp_path / "out/reproduce/fig7b.png").exists()
    assert (tmp_path / "results/smoke/fig7b.json").read_bytes() == before


def test_all_means_all(fedcast, monkeypatch):
    from fedcast.study.reproduce import REPRODUCTIONS

    asked = []
    monkeypatch.setattr("fedcast.cli.reproduce._carry_out", lambda _, name, *__, **___: asked.append(name))
    assert fedcast("all")[0] == 0
    assert asked == list(REPRODUCTIONS)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fig7"], "there is no reproduction 'fig7'; did you mean fig7"),
        ([], "say what: one or more of"),
        (["fig5", "--seeds", "1-x"], "expected whole numbers and ranges, for example 0-4,9"),
        (["fig5", "--seeds", "1-2-3"], "expected whole numbers and ranges"),
        (["fig5", "--scale", "huge"], "'huge' is not one of 'smoke', 'full'"),
        (["fig5", "--redraw", "--scale", "full"], "results/full/fig5.json: no stored result"),
    ],
)
def test_errors_are_one_line_and_code_2(fedcast, words, part):
    code, out, err = fedcast(*words)
    assert (code, out) == (2, "")
    assert part in err
    assert len(err.splitlines()) == 1


def test_seeds_are_numbers_and_ranges():
    from fedcast.cli.reproduce import _seeds

    assert _seeds("0-2,9,1") == (0, 1, 2, 9)
    assert _seeds(None) is None


def test_help_fits_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["reproduce", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(len(line.rstrip()) for line in lines) <= 80
