"""Tables with one row per user: in order of the users, and every missing, double or unknown user named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast.errors import DataError
from fedcast.io import Column, read_user_table, read_with_users


def write(folder: Path, text: str) -> Path:
    path = folder / "links.csv"
    path.write_text(text)
    return path


def user_message(path: Path, num_users: int | None) -> str:
    with pytest.raises(DataError) as caught:
        read_user_table(path, [Column("x_m", "float")], num_users)
    return str(caught.value).replace(str(path), path.name)


FROM_ONE = (
    "line 4, column user: user 3 does not exist, expected 0 to 2; users are numbered from 0: subtract 1 from every id"
)


@pytest.mark.parametrize(
    ("users", "num_users", "expected"),
    [
        ([0, 2, 3], 3, "line 4, column user: user 3 does not exist, expected 0 to 2"),
        ([0, -1, 1], 3, "line 3, column user: user -1 does not exist, expected 0 to 2"),
        ([1, 2, 3], 3, FROM_ONE),
        ([1, 2, 3], None, FROM_ONE),
        ([0, 2, 1, 2, 0], 5, "line 5, column user: user 2 is already on line 3"),
    ],
)
def test_user_rows_out_of_range_or_twice(tmp_path, users, num_users, expected):
    path = write(tmp_path, "user,x_m\n" + "".join(f"{user},1\n" for user in users))
    assert user_message(path, num_users) == f"links.csv, {expected}"


def test_users_without_a_row(tmp_path):
    path = write(tmp_path, "user,x_m\n2,1\n0,1\n")
    assert user_message(path, 3) == "links.csv: missing row for user 1 of users 0 to 2"
    assert user_message(path, 9) == "links.csv: missing row for user 1 and 6 more of users 0 to 8"


@given(
    rows=st.permutations(range(12)),
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=12, max_size=12),
)
@settings(max_examples=30, deadline=None)
def test_user_rows_come_back_in_order(tmp_path_factory, rows, values):
    path = tmp_path_factory.mktemp("users") / "users.csv"
    path.write_text("user,value\n" + "".join(f"{user},{values[user]!r}\n" for user in rows))
    table = read_user_table(path, [Column("value", "float")], 12)
    assert table["user"].tolist() == list(range(12))
    assert table["value"].tolist() == values
    assert table.lines.tolist() == [2 + rows.index(user) for user in range(12)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user,x\nlobbi,2\n",
         ", line 2, column user: unknown user 'lobbi'; the 2 users are gate, lobby; did you mean 'lobby'?"),
        ("user,x\ngate,1\ngate,2\n", ", line 3, column user: user gate is already on line 2"),
        ("user,x\ngate,1\n", ": missing row for user lobby of 2 users"),
        ("user,x\ngate,1\n ,2\n", ", line 3, column user: missing value, expected text"),
    ],
)  # fmt: skip
def test_faults_name_users(tmp_path, text, expected):
    path = tmp_path / "devices.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_user_table(path, [Column("x", "float")], 2, np.array(["gate", "lobby"]))
    assert str(caught.value) == f"{path}{expected}"


def test_a_long_list_of_names_is_shortened(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("user_a\nqq\n")
    with pytest.raises(DataError, match=r"unknown user 'qq'; the 12 users are node-k, node-b, node-x, …$"):
        read_with_users(path, [Column("user_a", "int")], [], np.array([f"node-{letter}" for letter in "kbxqwzaplmtc"]))
