"""Commands that read tables speak of users by their names."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.user_tables import NAMES, USERS, write_tables

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
    users = json.loads(out)["users"]
    assert [name for name, change in zip(users["user"], users["change"], strict=True) if change == "left"] == ["node-k"]


ODD = "[red]rack:x:3[/red]"


@pytest.fixture
def odd(tmp_path) -> list[str]:
    """Tables with a name that looks like markup, an emoji's code in it."""
    (tmp_path / "counts.csv").write_text(f"user,cat,dog\n{ODD},9,9\nlobby,0,9\nhall,9,0\nroof,5,0\n")
    links = f"{ODD},lobby,1,1e7\n{ODD},hall,1,1e7\n"
    (tmp_path / "links.csv").write_text("user_a,user_b,closeness,rate_bps\n" + links)
    return ["--counts", "counts.csv", "--links", "links.csv"]


def test_names_are_shown_as_they_are(fedcast, odd):
    code, out, err = fedcast("plan", *odd, "--json", "plan.json")
    assert code == 0, err
    assert f"user {ODD} sends" in out
    out = fedcast("cluster", *odd, "--explain", "daca", "--rules", "daca", "--json", "c.json")[1]
    assert f"user {ODD}: EMD" in out
    assert "user roof is left out" in out
    assert json.loads(Path("c.json").read_text())["names"] == [ODD, "lobby", "hall", "roof"]
    out = fedcast("network", *odd, "--set", "devices.energy_budget_j=1e-9")[1]
    assert f"user {ODD}: the upload takes" in out
    Path("fewer.csv").write_text("user,cat,dog\nlobby,0,9\nhall,9,0\n")
    out = fedcast("plan", "--counts", "fewer.csv", "--previous", "plan.json", "--json", "new.json")[1]
    assert ODD in out
    assert f"2 users left: {ODD} (was a head), roof (was alone)" in fedcast("plan", "diff", "plan.json", "new.json")[1]


def test_pictures_call_users_by_name(fedcast, odd):
    Path("counts.csv").write_text(f"user,cat,dog\n{'long' * 9},9,9\n\u95e8,0,9\n")
    assert fedcast("inspect", "--counts", "counts.csv", "--picture", "p.png")[0] == 0
    assert fedcast("inspect", "--counts", "counts.csv", "--picture", "p.svg", "--width", "column")[0] == 0
    texts = [text.text for text in ElementTree.parse("p.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert texts[texts.index("\u95e8") - 1 :][:2] == ["longlonglonglon\u2026", "\u95e8"]


@pytest.mark.parametrize(
    ("key", "content", "expected"),
    [
        ("geometry.positions_file", "user,x_m,y_m\nlobby,0,0\n", "missing row for user [red]rack:x:3[/red] and 2 more"),
        ("geometry.positions_file", "user,x_m,y_m\nlobby,1e10,0\n", "line 2, column x_m: '1e10' is above 1e+09"),
        ("devices.devices_file", "user,power_w\nloby,1\n", "unknown user 'loby'; the 4 users are"),
        ("trust.links_file", "user_a,user_b,closeness\nlobby,hal,1\nx,hall,1\n", "column user_b: unknown user 'hal'"),
    ],
)
def test_all_tables_are_validated_by_name(fedcast, odd, key, content, expected):
    Path("own.csv").write_text(content)
    code, _, err = fedcast("validate", "--counts", "counts.csv", "--set", f"{key}=own.csv")
    assert code == 2
    assert expected in err
    assert fedcast("validate", *odd[:2], "--set", "trust.links_file=links.csv")[0] == 0


def test_names_that_no_table_of_counts_gives(fedcast, tmp_path):
    (tmp_path / "links.csv").write_text("user_a,user_b,closeness\nhall,lobby,1\n")
    code, _, err = fedcast("plan", "--links", "links.csv")
    assert code == 2
    assert err == (
        "fedcast: links.csv, line 2, column user_a: 'hall' is not a whole number; "
        "users have names only if the table of label counts names them\n"
    )
