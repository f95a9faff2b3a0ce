"""Tables (CSV, Parquet or Excel) and atomic files.

Only the declared columns of a table are read, and all their values are validated; an error names file, line, column,
value and reason. Other columns are ignored, except if their name is similar to that of a missing optional column:
then it is probably a typo, and the table is invalid.
"""

from __future__ import annotations

from fedcast.io.atomic import atomic_write, check_writable, new_folder, write_file
from fedcast.io.table import Column, Table
from fedcast.io.table_files import (
    TABLE_FORMATS,
    column_names,
    data_frame,
    find_user,
    read_table,
    read_user_table,
    read_with_users,
    save_table,
)

__all__ = [
    "TABLE_FORMATS",
    "Column",
    "Table",
    "atomic_write",
    "check_writable",
    "column_names",
    "data_frame",
    "find_user",
    "new_folder",
    "read_table",
    "read_user_table",
    "read_with_users",
    "save_table",
    "write_file",
]
