"""Tables as people have them: Excel files, byte-order marks, and names that a spreadsheet would run as formulas."""

import builtins
import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.data import read_counts
from fedcast.errors import DataError, FedcastError
from fedcast.io import Column, column_names, read_table, read_user_table, save_table
from fedcast.io.formula_cells import neutralized, original

openpyxl = pytest.importorskip("openpyxl")

NAMES = ["=1+1", "+49 x", "-x", "@me", "'=a", "''-b", "'tis", "gate", "a=b"]


def sheet(path, *rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


@given(st.text(alphabet="'=+-@a1 ", max_size=6))
def test_neutralized_text_is_read_back_as_it_was(text):
    assert original(neutralized(text)) == text
    assert not neutralized(text).startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_formulas_in_cells_and_headers_are_harmless_and_kept(tmp_path, suffix):
    content = {"user": NAMES, "=class": [*range(len(NAMES))], "less": [-1.5] * len(NAMES)}
    path = save_table(content, tmp_path / f"t{suffix}")
    if suffix == ".csv":
        with path.open() as stream:
            rows = list(csv.reader(stream))
    else:
        rows = list(openpyxl.load_workbook(path).active.iter_rows(values_only=True))
    texts = [cell for row in rows for cell in row if isinstance(cell, str) and cell not in ("-1.5",)]
    assert not [text for text in texts if text.startswith(("=", "+", "-", "@"))]
    assert column_names(path) == ["user", "=class", "less"]
    table = read_user_table(path, [Column("=class", "int"), Column("less", "float")])
    assert table.names.tolist() == NAMES
    assert table["less"].tolist() == [-1.5] * len(NAMES)


def test_numbers_dates_and_empty_rows_of_a_sheet(tmp_path):
    path = sheet(tmp_path / "t.xlsx", ["user", "cat", "dog", None], ["lobby", 3.0, 1], [None, None], ["gate", 2, 4])
    people = read_counts(path)
    assert people.counts.tolist() == [[3, 1], [2, 4]]
    assert people.names.tolist() == ["lobby", "gate"]
    with pytest.raises(DataError, match=r"t.xlsx, row 3, column cat: '2.5' is not a whole number"):
        read_counts(sheet(tmp_path / "t.xlsx", ["user", "cat"], ["lobby", 1], ["gate", 2.5]))
    with pytest.raises(DataError, match=r"t.xlsx, row 2, column cat: missing value, expected a whole number"):
        read_counts(sheet(tmp_path / "t.xlsx", ["user", "cat", "dog"], ["lobby", None, 3]))


def test_the_value_of_a_formula_is_read(tmp_path):
    """openpyxl computes nothing: a file of its own has no values, one that Excel saved has."""
    with pytest.raises(DataError, match="row 2, column cat: missing value"):
        read_counts(sheet(tmp_path / "t.xlsx", ["user", "cat"], ["lobby", "=1+1"]))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"user,cat\n0,1\n"])
def test_files_that_are_no_sheets(tmp_path, content):
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=r"t.xlsx: not a readable .xlsx file"):
        read_counts(tmp_path / "t.xlsx")
    with pytest.raises(DataError, match=r"t.xlsx: the first sheet is empty"):
        read_counts(sheet(tmp_path / "t.xlsx"))
    with pytest.raises(DataError, match=r"no.xlsx: no such file"):
        read_counts(tmp_path / "no.xlsx")


def test_without_openpyxl(tmp_path, monkeypatch):
    path, real = sheet(tmp_path / "t.xlsx", ["user"]), builtins.__import__

    def missing(name, *rest):
        if name == "openpyxl":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DataError, match=r'reading Excel files needs openpyxl: pip install "fedcast\[xlsx\]"'):
        read_counts(path)
    with pytest.raises(FedcastError, match=r'writing Excel files needs openpyxl: pip install "fedcast\[xlsx\]"'):
        save_table({"a": [1]}, tmp_path / "u.xlsx")


def test_a_byte_order_mark_if_asked(tmp_path):
    path = save_table({"user": ["Zürich"]}, tmp_path / "t.csv", bom=True)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfuser")
    assert read_table(path, [Column("user", "text")])["user"].tolist() == ["Zürich"]
    with pytest.raises(FedcastError, match="only a .csv file has a byte-order mark"):
        save_table({"user": [1]}, tmp_path / "t.xlsx", bom=True)


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        (["user,a,b,total", "0,1,2,3", "1,4,5,9"], True),
        (["user,a,b,c", "0,1,2,3", "1,4,5,9", "2,1,0,1"], True),
        (["user,a,b,c", "0,1,2,3", "1,4,5,9"], False),  # two users: a coincidence
        (["user,a,b", "0,3,3", "1,4,4", "2,1,1"], False),  # two balanced classes
        (["user,a,b,c", "0,3,3,0", "1,4,4,0", "2,1,1,0"], False),
        (["user,a,b,total", "0,1,2,3", "1,4,5,8", "2,1,0,1"], False),
    ],
)
def test_a_column_that_is_the_sum_of_the_others(tmp_path, rows, refused):
    (tmp_path / "c.csv").write_text("\n".join(rows))
    if not refused:
        assert read_counts(tmp_path / "c.csv").num_users == len(rows) - 1
        return
    with pytest.raises(DataError, match=r"c.csv: column '(total|c)' is the sum of all other classes; remove it"):
        read_counts(tmp_path / "c.csv")


def test_numeric_codes_are_explained(tmp_path):
    (tmp_path / "c.csv").write_text("user,a,b\n1001,1,2\n1007,3,4\n")
    with pytest.raises(DataError, match="user 1001 does not exist, expected 0 to 1; to use codes such as 1001 as"):
        read_counts(tmp_path / "c.csv")
