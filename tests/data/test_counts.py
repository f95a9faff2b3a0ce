"""Tables of label counts: classes, users without gaps, and every fault named."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast import read_counts
from fedcast.data.population import Population
from fedcast.errors import DataError


def read(folder, text: str) -> Population:
    path = folder / "counts.csv"
    path.write_text(text)
    return read_counts(path)


def test_classes_keep_their_names(tmp_path):
    assert read(tmp_path, "user,dog,cat\n0,1,50\n1,70,0\n").class_names == ("dog", "cat")
    assert read(tmp_path, "user,class,count\n0,dog,1\n1,cat,2\n").class_names == ("cat", "dog")


def test_a_user_without_data_is_given_a_count_of_0(tmp_path):
    people = read(tmp_path, "user,class,count\n0,cat,50\n1,cat,0\n2,dog,7\n")
    assert people.counts.tolist() == [[50, 0], [0, 0], [0, 7]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("user,cat,dog\n0,0,0\n1,0,0\n", "counts.csv: no user has any data: every count is 0"),
        ("user,class,count\n0,cat,0\n", "counts.csv: no user has any data: every count is 0"),
        (",user,cat\n0,0,5\n1,1,5\n", "counts.csv: column 1 has no name, and every column except user is a class"),
        ("user,cat,\n0,5,\n", "counts.csv: column 3 has no name"),
        ("Unnamed: 0,user,cat\n0,0,5\n", "counts.csv: column 1 has no name"),
        ("user,cat\n0,9000000000000000000\n", "line 2, column cat: '9000000000000000000' is above 1e+12"),
        ("user,cat\n0,9999999999999999999999\n", "line 2, column cat: '9999999999999999999999' is too large"),
        ("user,cat\n1,5\n2,5\n", "user 2 does not exist, expected 0 to 1; users are numbered from 0: subtract 1"),
        ("user,class,count\n1,a,5\n2,a,5\n2,b,1\n", "missing row for user 0; users are numbered from 0: subtract 1"),
        (
            "user,class,count\n0,a,5\n2,a,5\n",
            "line 3, column user: user 2, but there is no row for 1; number users",
        ),
        (
            "user,class,count\n0,a,5\n6,a,5\n3,a,1\n",
            "line 3, column user: user 6, but there is no row for 1, 2, 4 … (4 in all); number users from 0",
        ),
    ],
)
def test_faults_are_named(tmp_path, text, reason):
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert reason in str(caught.value)


@pytest.mark.parametrize("user", [1_000_000, 300_000_000, 100_000_000_000, 2**62])
def test_one_wrong_id_is_refused_before_anything_is_allocated(tmp_path, user):
    reason = rf"line 3, column user: user {user}, but there is no row for 1, 2, 3 … \({user - 1:,} in all\)"
    with pytest.raises(DataError, match=reason):
        read(tmp_path, f"user,class,count\n0,cat,50\n{user},dog,1\n")


def test_a_parquet_index_is_no_class(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "counts.parquet"
    parquet.write_table(pyarrow.table({"user": np.arange(2), "cat": [5, 1], "__index_level_0__": [0, 1]}), path)
    with pytest.raises(DataError, match="column 3 has no name"):
        read_counts(path)
