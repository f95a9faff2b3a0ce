"""Tables and figures as files: read back with other programs' readers."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import pyarrow.parquet
import pytest

from fedcast.errors import FedcastError
from fedcast.report import export_report
from tests.report.conftest import made_run

TABLES = {"comparison", "runs", "targets", "history", "users", "heads", "classes", "ledger", "leakage", "time_split"}


@pytest.fixture(scope="module")
def exported(real_runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    files = export_report(real_runs, folder, ["csv", "parquet"])
    assert sorted(files) == sorted(folder.iterdir())
    return folder


def rows_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_table_in_both_formats(exported):
    assert {path.name for path in exported.iterdir()} == {
        f"{name}.{kind}" for name in TABLES for kind in ("csv", "parquet")
    }
    for name in TABLES:
        table = pyarrow.parquet.read_table(exported / f"{name}.parquet")
        rows = rows_of(exported / f"{name}.csv")
        assert table.num_rows == len(rows)
        assert table.column_names == list(rows[0])


def test_rows_are_those_of_the_run_folders(exported, real_runs):
    for name, file in (("history", "history.csv"), ("ledger", "ledger.csv")):
        written = rows_of(exported / f"{name}.csv")
        for run in real_runs:
            own = [row for row in written if row["run"] == run.folder.name]
            plain = [
                {key: value for key, value in row.items() if key not in ("strategy", "seed", "run")} for row in own
            ]
            assert plain == rows_of(run.folder / file)
    users = rows_of(exported / "users.csv")
    assert len(users) == len(real_runs) * 24
    stored = json.loads((real_runs[-1].folder / "tables.json").read_text())["users"]
    assert [float(row["emd_after"]) for row in users[-24:]] == stored["emd_after"]
    assert {row["strategy"] for row in users} == {"FedAvg", "daca"}


def test_every_figure_in_every_format(real_runs, tmp_path):
    real_runs = real_runs[::2]
    files = export_report(real_runs, tmp_path / "new", ["png", "svg", "pdf"])
    names = {path.stem for path in files}
    for measure in ("accuracy", "test_loss"):
        assert {f"{measure}_by_round", f"{measure}_by_seconds"} <= names
    for run in real_runs:
        assert {f"{kind}_{run.folder.name}" for kind in ("map", "classes", "emd", "energy")} <= names
    assert {"time_split", "leakage"} <= names
    begins = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(begins[path.suffix]) for path in files)
    assert len(files) == 3 * len(names)


def test_figures_for_papers_have_the_width_of_a_column(tmp_path):
    files = export_report([made_run("daca", 0, [0.1, 0.6])], tmp_path, ["svg"], width="column")
    assert all(' width="252pt"' in path.read_text(encoding="utf-8") for path in files)
    with pytest.raises(FedcastError, match="invalid value 'wide' for width: expected screen, column, page"):
        export_report([made_run("daca", 0, [0.1, 0.6])], tmp_path, ["svg"], width="wide")


def test_no_leakage_figure_without_a_plan(tmp_path):
    files = export_report([made_run("daca", 0, [0.1, 0.6])], tmp_path, ["svg"])
    assert "leakage" not in {path.stem for path in files}


def test_faults_are_found_before_anything_is_written(real_runs, tmp_path):
    with pytest.raises(FedcastError, match="invalid value 'ods' for --format: expected csv, parquet, xlsx, png"):
        export_report(real_runs, tmp_path / "new", ["csv", "ods"])
    with pytest.raises(FedcastError, match=r"formats: expected a list such as \['csv'\], got 'csv'"):
        export_report(real_runs, tmp_path / "new", "csv")
    (tmp_path / "file").touch()
    with pytest.raises(FedcastError, match="is a file, expected a folder"):
        export_report(real_runs, tmp_path / "file")
    broken = next(run for run in real_runs if run.rule == "daca")
    shutil.copytree(broken.folder, tmp_path / "broken")
    (tmp_path / "broken" / "ledger.csv").write_text("sample,sender,receiver\n1,2,x\n")
    with pytest.raises(FedcastError, match=r"line 2, column receiver: 'x' is not a whole number"):
        export_report([replace(broken, folder=tmp_path / "broken")], tmp_path / "new", ["csv"])
    assert not (tmp_path / "new").exists()


def test_a_plan_without_sharing_has_one_point_and_samples_are_whole(exported):
    points = rows_of(exported / "leakage.csv")
    assert len(points) == len({tuple(row.values()) for row in points})
    assert {row["strategy"] for row in points} == {"FedAvg", "daca"}
    users = rows_of(exported / "users.csv")
    assert all(row["received"].isdigit() and row["sent"].isdigit() for row in users)
    assert sum(int(row["received"]) for row in users) == len(rows_of(exported / "ledger.csv"))
