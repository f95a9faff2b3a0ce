"""Numbers, counts and suggestions as people read them."""

import numpy as np
import pytest

from fedcast.errors import DataError
from fedcast.formatting import SPACE, quantity, relative_change, similar_name
from fedcast.io import Column, read_with_users


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (45_240.0, "s", "12.6 h"), (385.2, "s", "385 s"), (0.0123, "s", "12.3 ms"), (8.85e9, "B", "8.85 GB"),
        (1980.0, "J", "1.98 kJ"), (3.45e15, "J", "3,450 TJ"), (2e-9, "J", "2 nJ"), (0.0, "J", "0 J"),
    ],
)  # fmt: skip
def test_quantities_have_no_exponent(value, unit, shown):
    assert quantity(value, unit).replace(SPACE, " ") == shown


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (100, 99.99, "−0.01 %"),
        (100, 100.04, "+0.04 %"),
        (100, 100, "unchanged"),
        (3, 1, "−66.7 %"),
        (100, 99.9, "−0.1 %"),
    ],
)
def test_a_decrease_is_never_shown_as_zero(before, after, shown):
    assert relative_change(before, after).replace(SPACE, " ") == shown


def test_suggestions_are_near():
    assert similar_name("9" * 10_000, ["9" * 9_999]) is None
    assert similar_name("closenes", ["closeness"]) == "closeness"


@pytest.mark.parametrize(("name", "asked"), [("n99", None), ("loby7", "lobby7"), ("tower", None)])
def test_users_that_differ_in_their_number_are_no_typing_errors(tmp_path, name, asked):
    (tmp_path / "t.csv").write_text(f"user\n{name}\n")
    with pytest.raises(DataError, match="unknown user") as caught:
        read_with_users(tmp_path / "t.csv", [Column("user", "int")], [], np.array(["n9", "n10", "lobby7"]))
    assert str(caught.value).endswith(f"; did you mean {asked!r}?" if asked else "lobby7")


def test_a_column_that_is_far_from_the_missing_one_is_not_suggested(tmp_path):
    (tmp_path / "t.csv").write_text("user_a,user_b,rate\n")
    with pytest.raises(DataError, match="missing column 'closeness'; the columns are user_a, user_b, rate$"):
        read_with_users(tmp_path / "t.csv", [Column("user_a", "int")], [Column("closeness", "float")])
