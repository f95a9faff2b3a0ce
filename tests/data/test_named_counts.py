"""Tables of label counts whose users have names."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedcast.data import Population, read_counts
from fedcast.errors import DataError


def test_long_counts_by_name(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("user,class,count\ngate,dog,3\nlobby,cat,2\ngate,cat,1\n")
    people = read_counts(path)
    assert people.names.tolist() == ["gate", "lobby"]
    assert people.counts.tolist() == [[1, 3], [2, 0]]
    path.write_text("user,class,count\ngate,dog,3\ngate,dog,1\n")
    with pytest.raises(DataError, match="line 3: user gate has a second count of class dog"):
        read_counts(path)


EITHER = "; number all users from 0, or give all of them names that are not numbers, such as n7"


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (["7f", "08"], f"line 3, column user: '08' is a number, but '7f' is a name{EITHER}"),
        (["O", "1"], f"line 3, column user: '1' is a number, but 'O' is a name{EITHER}"),
        (["0", "1O"], f"line 3, column user: '1O' is not a whole number{EITHER}"),
        (["", "gate"], "line 2, column user: missing value, expected a whole number"),
        (["nan", "1"], "line 2, column user: 'nan' is not a whole number"),
        (["0.5", "1"], "line 2, column user: '0.5' is not a whole number"),
        (["a", '"b\nc"'], "line 4, column user: 'b\\nc' contains unprintable characters; rename the user"),
    ],
)
@pytest.mark.parametrize("form", ["user,cat\n{},3\n{},1\n", "user,class,count\n{},cat,3\n{},cat,1\n"])
def test_users_are_numbers_or_names(tmp_path, form, users, expected):
    path = tmp_path / "counts.csv"
    path.write_text(form.format(*users))
    with pytest.raises(DataError) as caught:
        read_counts(path)
    assert str(caught.value) == f"{path}, {expected}"


def test_one_way_to_write_an_accent(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("user,cat\ncafe\u0301,3\n")
    assert read_counts(path).names.tolist() == ["caf\u00e9"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["a"], "one name for each of 2 users"), (["a", "a"], "invalid names: two users have the name 'a'")],
)
def test_names_given_from_python_are_checked(names, reason):
    with pytest.raises(DataError, match=reason):
        Population(np.ones((2, 2), dtype=np.int64), ("x", "y"), names=names)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"cat": [1]}, ": missing column 'user'; the columns are cat"),
        ({"user": pyarrow.array([], "string"), "cat": pyarrow.array([], "int64")}, ": has column names but no rows"),
        ({"user": [float("nan"), 1.0], "cat": [1, 2]}, ", row 1, column user: nan is not a finite number"),
        ({"user": [None, "a"], "cat": [1, 2]}, ", row 1, column user: missing value, expected a whole number"),
    ],
)
def test_odd_parquet_files(tmp_path, columns, expected):
    path = tmp_path / "counts.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(DataError) as caught:
        read_counts(path)
    assert str(caught.value) == f"{path}{expected}"


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_parquet_columns_of_text(tmp_path, kind):
    users = pyarrow.array(["gate", "lobby"])
    users = users.dictionary_encode() if kind == "dictionary" else users.cast(kind)
    path = tmp_path / "counts.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"user": users, "cat": [1, 2]}), path)
    assert read_counts(path).names.tolist() == ["gate", "lobby"]
