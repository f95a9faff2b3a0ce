"""JSON files of LEAF (Caldas et al. 2018): ``{"users": [...], "num_samples": [...], "user_data": {user: {x, y}}}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedcast.data.imports.user_samples import Samples, UserSamples, checked, joined
from fedcast.errors import DataError
from fedcast.text_files import is_file, parse_json, read_text


def read_leaf(source: Path) -> UserSamples:
    """Read a folder with train/ and test/, as LEAF's preprocess.sh makes it, a folder of .json files, or one file.

    Users are in the order of their names, as LEAF's own reader has them. Test samples of all users are one test set.
    """
    if is_file(source) or not (source / "train").is_dir():
        users = read_users(source)
        return UserSamples(list(users), list(users.values()))
    users, test = read_users(source / "train"), None
    if (source / "test").is_dir():
        of_users = read_users(source / "test")
        test = joined(f"{source}/test", list(of_users.values()), list(of_users))
    return UserSamples(list(users), list(users.values()), test)


def read_users(source: Path) -> dict[str, Samples]:
    """Return the samples of each user of one file, or of all .json files of a folder, in the order of their names."""
    files = [source] if is_file(source) else sorted(source.glob("*.json"))
    if not files:
        raise DataError(f"{source}: no .json file here; expected JSON of LEAF")
    found: dict[str, Samples] = {}
    for file in files:
        users = _users_of(file)
        if twice := sorted(found.keys() & users):
            raise DataError(f"{file}: user {twice[0]!r} is in another file of the folder, too")
        for name, held in users.items():
            where = f"{file}: user {name!r}"
            if not isinstance(held, dict) or not {"x", "y"} <= held.keys():
                raise DataError(f"{where}: expected an object with x and y")
            found[name] = checked(where, held["x"], held["y"])
    return dict(sorted(found.items()))


def _users_of(file: Path) -> dict[str, Any]:
    content = parse_json(read_text(file), str(file))
    if not isinstance(content, dict) or not {"users", "user_data"} <= content.keys():
        raise DataError(f"{file}: expected an object with users, num_samples and user_data, as LEAF writes it")
    names, data = content["users"], content["user_data"]
    if not isinstance(names, list) or not isinstance(data, dict) or set(map(str, names)) != set(data):
        raise DataError(f"{file}: users and the keys of user_data are not the same")
    return data
