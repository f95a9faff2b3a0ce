"""A person's own tables, CSV or Parquet: read whole, checked, and refused with file, line, column, value and reason.

Only the declared columns are read. Others are ignored, since exports of other tools carry more than is needed, but a
column whose name is nearly that of an absent one is refused: it would otherwise be dropped without a word.
"""

from __future__ import annotations

from fedcast.io.atomic import written_aside
from fedcast.io.reading import column_names, read_table
from fedcast.io.saving import save_table
from fedcast.io.table import Column, Table
from fedcast.io.user_tables import read_user_table, read_with_users

__all__ = [
    "Column",
    "Table",
    "column_names",
    "read_table",
    "read_user_table",
    "read_with_users",
    "save_table",
    "written_aside",
]
