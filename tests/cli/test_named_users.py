"""Commands that read tables speak of users by their names."""

from __future__ import annotations

import csv
import json

import pytest
from tests.federation import NAMES, USERS, write_tables

from fedcast.plan import load_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_command_speaks_of_names(fedcast, tmp_path):
    tables = write_tables(tmp_path, NAMES.__getitem__)
    own = [word for name, path in tables.items() for word in (f"--{name}", str(path))]
    code, out, err = fedcast("plan", *own, "--json", "plan.json", "--table", "plan.csv")
    assert code == 0, err
    rows = list(csv.DictReader((tmp_path / "plan.csv").read_text().splitlines()))
    assert [row["user"] for row in rows] == NAMES
    plan = load_plan(tmp_path / "plan.json")
    assert [row["head"] or None for row in rows] == [NAMES[head] if head >= 0 else None for head in plan.head_of]
    largest = max(plan.heads, key=lambda head: (plan.head_of == head).sum())
    assert f"user {NAMES[largest]} sends" in out
    (tmp_path / "smaller").mkdir()
    smaller = write_tables(tmp_path / "smaller", NAMES.__getitem__, users=range(1, USERS))
    own = [word for name, path in smaller.items() for word in (f"--{name}", str(path))]
    code, out, err = fedcast("plan", *own, "--previous", "plan.json", "--json", "new.json")
    assert code == 0, err
    assert "1 user left: node-k" in out
    code, out, _ = fedcast("plan", "diff", "plan.json", "new.json", "--json", "-")
    assert json.loads(out)["left"] == ["node-k"]


def test_brackets_in_names_are_shown(fedcast, tmp_path):
    (tmp_path / "counts.csv").write_text("user,cat,dog\n[red]hall[/red],9,1\nlobby,0,9\n")
    (tmp_path / "links.csv").write_text("user_a,user_b,closeness,rate_bps\n[red]hall[/red],lobby,1,1e7\n")
    code, out, err = fedcast(
        "cluster", "--counts", "counts.csv", "--links", "links.csv", "--explain", "cec", "--rules", "cec"
    )
    assert code == 0, err
    assert "user [red]hall[/red]: EMD" in out
    assert fedcast("validate", "--counts", "counts.csv", "--set", "trust.links_file=links.csv")[0] == 0


def test_names_that_no_table_of_counts_gives(fedcast, tmp_path):
    (tmp_path / "links.csv").write_text("user_a,user_b,closeness\nhall,lobby,1\n")
    code, _, err = fedcast("plan", "--links", "links.csv")
    assert code == 2
    assert err == (
        "fedcast: links.csv, line 2, column user_a: 'hall' is not a whole number; "
        "users have names only if the table of label counts names them\n"
    )
