"""Own tables: what is read equals what pyarrow reads, and every fault is named with file, line, column and value."""

from __future__ import annotations

import builtins
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from fedcast.errors import DataError
from fedcast.io import Column, column_names, read_table

LINKS = [
    Column("user_a", "int", minimum=0),
    Column("user_b", "int", minimum=0),
    Column("rate_bps", "float", above=0),
    Column("closeness", "float", required=False, minimum=0, maximum=1),
]
GOOD_LINE = "0,1,1e6,0.5\n"
HEADER = "user_a,user_b,rate_bps,closeness\n"


def write(folder: Path, text: str | bytes, name: str = "links.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_parquet(folder: Path, **columns: object) -> Path:
    path = folder / "links.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def message(path: Path, columns: list[Column] = LINKS) -> str:
    with pytest.raises(DataError) as caught:
        read_table(path, columns)
    return str(caught.value).replace(str(path), path.name)


def test_values_and_types(tmp_path):
    table = read_table(write(tmp_path, HEADER + "0,1,1e6,0.5\n 2 ,3.0,7,1\n"), LINKS)
    assert table["user_a"].tolist() == [0, 2]
    assert table["user_b"].tolist() == [1, 3]
    assert table["user_b"].dtype == np.int64
    assert table["rate_bps"].tolist() == [1e6, 7.0]
    assert table["closeness"].dtype == np.float64
    assert table.lines.tolist() == [2, 3]
    assert table.num_rows == 2


def test_numbers_equal_those_of_pyarrow(tmp_path):
    generator = np.random.default_rng(3)
    users = generator.integers(0, 10**6, (70_000, 2))
    rates = generator.lognormal(0, 20, 70_000)
    lines = [f"{a},{b},{rate!r},{rate % 1:.17g}" for (a, b), rate in zip(users.tolist(), rates.tolist(), strict=True)]
    path = write(tmp_path, HEADER + "\n".join(lines))
    table, other = read_table(path, LINKS), pyarrow.csv.read_csv(path)
    assert table.num_rows == 70_000
    for name, values in table.columns.items():
        np.testing.assert_array_equal(values, other[name].to_numpy())


def test_text_and_bool(tmp_path):
    path = write(tmp_path, 'name,consent\n"Ann, B.",yes\n Bob ,FALSE\nCem,1\n')
    table = read_table(path, [Column("name", "text"), Column("consent", "bool")])
    assert table["name"].tolist() == ["Ann, B.", "Bob", "Cem"]
    assert table["consent"].tolist() == [True, False, True]


def test_bad_text_and_bool_are_named(tmp_path):
    columns = [Column("name", "text"), Column("consent", "bool")]
    blank = write(tmp_path, "name,consent\nAnn,yes\n ,no\n")
    assert message(blank, columns) == "links.csv, line 3, column name: missing value, expected text"
    neither = write(tmp_path, "name,consent\nAnn,perhaps\n")
    assert message(neither, columns) == "links.csv, line 2, column consent: 'perhaps' is not true or false"


def test_absent_optional_columns_are_absent_and_extra_ones_ignored(tmp_path):
    table = read_table(write(tmp_path, "user_a,user_b,rate_bps,operator\n0,1,5,Z\n"), LINKS)
    assert set(table.columns) == {"user_a", "user_b", "rate_bps"}


@pytest.mark.parametrize("text", ["\ufeff" + HEADER + GOOD_LINE, (HEADER + GOOD_LINE).replace("\n", "\r\n")])
def test_byte_order_mark_and_windows_line_ends(tmp_path, text):
    assert read_table(write(tmp_path, text), LINKS)["user_b"].tolist() == [1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0,1,abc,0.5", "line 3, column rate_bps: 'abc' is not a number"),
        ("0,1,nan,0.5", "line 3, column rate_bps: 'nan' is not a finite number"),
        ("0,1,inf,0.5", "line 3, column rate_bps: 'inf' is not a finite number"),
        ("0,1,,0.5", "line 3, column rate_bps: missing value, expected a number"),
        ("0,1,0,0.5", "line 3, column rate_bps: '0' is not above 0"),
        ("0,1,1_0,0.5", "line 3, column rate_bps: '1_0' is not a number"),
        ("0,1,5,1.2", "line 3, column closeness: '1.2' is above 1"),
        ("0,1,5,-0.1", "line 3, column closeness: '-0.1' is below 0"),
        ("0.5,1,5,1", "line 3, column user_a: '0.5' is not a whole number"),
        ("nan,1,5,1", "line 3, column user_a: 'nan' is not a whole number"),
        ("99999999999999999999,1,5,1", "line 3, column user_a: '99999999999999999999' is too large"),
        ("1e30,1,5,1", "line 3, column user_a: '1e30' is too large"),
        ("inf,1,5,1", "line 3, column user_a: 'inf' is not a whole number"),
        ("-1,1,5,1", "line 3, column user_a: '-1' is below 0"),
        ("0,1,5", "line 3: the header has 4 fields, this line has 3"),
        ("0,1,5,1,9", "line 3: the header has 4 fields, this line has 5"),
    ],
)
def test_bad_line_is_named(tmp_path, line, expected):
    path = write(tmp_path, HEADER + GOOD_LINE + line + "\n" + GOOD_LINE)
    assert message(path) == f"links.csv, {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "links.csv: the file is empty, expected a header and rows"),
        ("\n\n", "links.csv: the file is empty, expected a header and rows"),
        (HEADER, "links.csv: has column names but no rows"),
        (HEADER + "\n\n", "links.csv: has column names but no rows"),
        ("user_a;user_b;rate_bps\n0;1;5\n", "links.csv: missing column 'user_a'; fields must be separated by commas"),
        (
            "user_a,user_b,rate\n0,1,5\n",
            "links.csv: missing column 'rate_bps'; did you mean 'rate'? The columns are user_a, user",
        ),
        ("a,user_b,rate_bps\n0,1,5\n", "links.csv: missing column 'user_a'"),
        ("user_a,user_a,user_b,rate_bps\n0,0,1,5\n", "links.csv: column user_a is listed twice in the header"),
        (
            "user_a,user_b,rate_bps,Closenes\n0,1,5,1\n",
            "links.csv: unknown column 'Closenes'; did you mean 'closeness'? Rename it if so, remove it if not",
        ),
        (HEADER + '0,1,"5,1\n', "links.csv, line 2: not valid CSV"),
        (HEADER.encode() + GOOD_LINE.encode() + b"0,1,5,\xff\n", "links.csv, line 3: not UTF-8 text (byte 0xff)"),
        (HEADER.encode("utf-16"), "links.csv, line 1: not UTF-8 text (byte 0xff); save the file as CSV in UTF-8"),
    ],
)
def test_bad_file_is_named(tmp_path, text, expected):
    assert message(write(tmp_path, text)).startswith(expected)


def test_the_earliest_line_is_reported_whatever_its_column(tmp_path):
    path = write(tmp_path, HEADER + "0,1,5,0.5\n0,1,5,7\nx,1,5,1\n0,1\n")
    assert message(path) == "links.csv, line 3, column closeness: '7' is above 1"


def test_lines_count_blank_lines_and_breaks_inside_quotes(tmp_path):
    text = 'name,value\n"two\nlines",1\n\nplain,2\nplain,oops\n'
    columns = [Column("name", "text"), Column("value", "float")]
    assert message(write(tmp_path, text), columns) == "links.csv, line 6, column value: 'oops' is not a number"
    good = read_table(write(tmp_path, text.replace("oops", "3")), columns)
    assert good.lines.tolist() == [3, 5, 6]
    assert str(good.fail(1, "no", "value")) == f"{good.path}, line 5, column value: no"


@pytest.mark.parametrize("name", ["links.csv", "links.parquet"])
def test_missing_file_and_folder(tmp_path, name):
    assert message(tmp_path / name) == f"{name}: no such file"
    (tmp_path / name).mkdir()
    assert message(tmp_path / name) == f"{name}: is a folder, expected .csv, .parquet or .xlsx"


def test_other_endings_are_refused(tmp_path):
    assert (
        message(write(tmp_path, HEADER, "links.ods"))
        == "links.ods: unknown file format, expected .csv, .parquet or .xlsx"
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"rate_bps": [5.0, float("nan")]}, "row 2, column rate_bps: nan is not a finite number"),
        ({"rate_bps": [5.0, None]}, "row 2, column rate_bps: missing value, expected a number"),
        ({"rate_bps": [-5.0, None]}, "row 1, column rate_bps: -5.0 is not above 0"),
        ({"rate_bps": ["5", "six"]}, "row 2, column rate_bps: 'six' is not a number"),
        ({"user_a": [0.0, 0.5]}, "row 2, column user_a: 0.5 is not a whole number"),
        ({"user_a": np.array([0, 2**63], dtype=np.uint64)}, "row 2, column user_a: 9223372036854775808 is too large"),
        ({"closeness": [1.2, 0.5]}, "row 1, column closeness: 1.2 is above 1"),
    ],
)
def test_bad_parquet_row_is_named(tmp_path, columns, expected):
    given = {"user_a": [0, 1], "user_b": [1, 2], "rate_bps": [5.0, 6.0]} | columns
    assert message(write_parquet(tmp_path, **given)) == f"links.parquet, {expected}"


def test_bad_parquet_file_is_named(tmp_path):
    assert message(write(tmp_path, "user_a", "links.parquet")).startswith("links.parquet: not a Parquet file")
    assert message(write_parquet(tmp_path, user_a=[1])).startswith("links.parquet: missing column 'user_b'")
    path = write_parquet(tmp_path, user_a=[True], user_b=[1], rate_bps=[1.0])
    assert message(path) == "links.parquet, column user_a: has type bool, expected a whole number"
    empty = pyarrow.array([], pyarrow.int64())
    assert message(write_parquet(tmp_path, user_a=empty, user_b=empty, rate_bps=empty)).endswith("but no rows")


def test_a_table_without_rows_keeps_its_columns_and_their_types(tmp_path):
    with_text = [*LINKS, Column("name", "text")]
    kinds = {"user_a": "i", "user_b": "i", "rate_bps": "f", "name": "U"}
    nothing = pyarrow.array([], pyarrow.null())
    parquet = write_parquet(tmp_path, user_a=nothing, user_b=nothing, rate_bps=nothing, name=nothing)
    for path in (write(tmp_path, "user_a,user_b,rate_bps,name\n\n"), parquet):
        table = read_table(path, with_text, may_be_empty=True)
        assert table.num_rows == 0
        assert {name: values.dtype.kind for name, values in table.columns.items()} == kinds


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [("budget", True), ("Energy budget", True), ("energy_j", True), ("enegry_budget", True), ("battery_j", False)],
)
def test_a_part_of_a_name_is_taken_for_it(tmp_path, unknown, meant):
    """Words of the name in any number, or nearly the name; others are somebody else's columns."""
    path = write(tmp_path, f"user,{unknown}\n0,5\n")
    columns = [Column("user", "int"), Column("energy_budget_j", "float", required=False)]
    if meant:
        assert message(path, columns).startswith(
            f"links.csv: unknown column {unknown!r}; did you mean 'energy_budget_j'?"
        )
    else:
        assert set(read_table(path, columns).columns) == {"user"}


def test_parquet_equals_csv(tmp_path):
    csv = read_table(write(tmp_path, "user_a,user_b,rate_bps,closeness\n3,1,5,1\n2,4,6.5,0\n"), LINKS)
    dictionary = pyarrow.array(["5", "6.5"]).dictionary_encode()
    path = write_parquet(tmp_path, user_a=[3.0, 2.0], user_b=[1, 4], rate_bps=dictionary, closeness=[1, 0])
    parquet = read_table(path, LINKS)
    assert {n: (v.dtype, v.tolist()) for n, v in csv.columns.items()} == {
        n: (v.dtype, v.tolist()) for n, v in parquet.columns.items()
    }
    assert str(parquet.fail(0, "no")) == f"{path}, row 1: no"
    flags = write_parquet(tmp_path, a=[True, False], b=[1, 0])
    table = read_table(flags, [Column("a", "bool"), Column("b", "bool")])
    assert table["a"].tolist() == table["b"].tolist() == [True, False]


def test_without_pyarrow_the_way_out_is_named(tmp_path, monkeypatch):
    path = write_parquet(tmp_path, user_a=[1])
    real_import = builtins.__import__

    def no_pyarrow(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    assert message(path) == 'links.parquet: reading Parquet needs pyarrow: pip install "fedcast[parquet]"'


def test_column_names(tmp_path):
    assert column_names(write(tmp_path, "\ufeffuser, class_0 ,class_1\n0,1,2\n")) == ["user", "class_0", "class_1"]
    assert column_names(write_parquet(tmp_path, user=[0], class_0=[1])) == ["user", "class_0"]
    with pytest.raises(DataError, match="no such file"):
        column_names(tmp_path / "none.csv")


def test_one_bad_line_in_a_million_is_named_within_seconds(tmp_path):
    lines = [HEADER, *([GOOD_LINE] * 999_999)]
    lines[876_543 - 1] = "0,1,fast,0.5\n"
    path = write(tmp_path, "".join(lines))
    start = time.process_time()
    assert message(path) == "links.csv, line 876543, column rate_bps: 'fast' is not a number"
    assert time.process_time() - start < 20  # 0.7 s on a calm core; a loop in Python over rows would take longer
