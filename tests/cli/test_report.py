"""fedcast report, as a person calls it."""

from __future__ import annotations

import csv

import pytest
from pyarrow import parquet

from fedcast import load_scenario
from fedcast.cli.app import run
from fedcast.runs.store import run_scenario


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    few = ["data.num_users=20", "training.model=mlp", "training.rounds=2", "training.local_epochs=1"]
    few += ["allocation.method=fixed"]
    for rule in ("none", "daca"):
        run_scenario(load_scenario(base="digits", overrides=[*few, f"clustering.rule={rule}"]), folder)
    return folder


@pytest.fixture
def fedcast(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_store_becomes_a_page(fedcast, store, tmp_path):
    assert fedcast("report", store) == (0, "wrote report.html\n", "")
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert all(folder.name in text for folder in store.iterdir())


def test_one_run_and_an_export(fedcast, store, tmp_path):
    one = next(folder for folder in store.iterdir() if folder.name.startswith("daca"))
    code, out, _ = fedcast(
        "report", one, "--out", "new/page.html", "--export", "tables", "--format", "csv", "--format", "svg"
    )
    assert code == 0
    files = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert out == f"wrote new/page.html\nwrote {len(files)} files to tables\n"
    assert {path.rpartition(".")[2] for path in files} == {"csv", "svg"}
    assert "comparison.csv" in files
    assert f"map_{one.name}.svg" in files


def test_exported_as_csv_and_png_unless_told(fedcast, store, tmp_path):
    one = next(folder for folder in store.iterdir() if folder.name.startswith("none"))
    assert fedcast("report", one, "--export", "all")[0] == 0
    assert {path.suffix for path in (tmp_path / "all").iterdir()} == {".csv", ".png"}


def test_settings_with_different_columns_are_exported_together(fedcast, tmp_path):
    """Only runs with a deadline count who missed it; the values that vary are a number and a word."""
    few = ("data.num_users=20", "training.model=mlp", "training.rounds=2", "training.local_epochs=1")
    words = [word for change in (*few, "allocation.method=fixed") for word in ("--set", change)]
    vary = ("--vary", "training.deadline_s=unset,0.3", "--rules", "none", "--seeds", "1", "--workers", "1")
    assert fedcast("compare", *vary, *words, "--out", "both")[0] == 0
    assert fedcast("report", "both", "--export", "t", "--format", "csv", "--format", "parquet")[0] == 0
    with (tmp_path / "t" / "runs.csv").open(newline="") as file:
        missed = {row["training.deadline_s"]: row["missed"] for row in csv.DictReader(file)}
    assert missed["unset"] == ""
    assert float(missed["0.3"]) >= 0
    stored = parquet.read_table(tmp_path / "t" / "runs.parquet").to_pydict()
    found = dict(zip(stored["training.deadline_s"], stored["missed"], strict=True))
    assert found == {"unset": None, "0.3": float(missed["0.3"])}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: no finished run in this folder"),
        (["."], "no finished run in this folder"),
        (["{store}", "--out", "report.pdf"], "report.pdf: a report is an .html file"),
        (["{store}", "--format", "csv"], "--format: applies to exports only; add --export FOLDER"),
        (["{store}", "--width", "page"], "--width: applies to exports only; add --export FOLDER"),
        (
            ["{store}", "--export", "x", "--width", "wide"],
            "invalid value 'wide' for width: expected screen, column, page",
        ),
        (
            ["{store}", "--export", "x", "--format", "odt"],
            "invalid value 'odt' for --format: expected csv, parquet, xlsx, png",
        ),
        ([], "Missing argument"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(fedcast, store, tmp_path, words, said):
    code, _, err = fedcast("report", *(word.replace("{store}", str(store)) for word in words))
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_help_fits_a_screen(fedcast):
    code, out, _ = fedcast("report", "--help")
    assert code == 0
    assert len(out.splitlines()) <= 30
    for word in ("--out", "--export", "--format", "--width"):
        assert word in out
