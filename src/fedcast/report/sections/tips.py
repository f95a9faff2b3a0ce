"""What a user's mark on the map says: why it leads, what it gained, or why it was left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.formatting import number, percent, pluralize, quantity
from fedcast.runs.store import StoredRun

_EMD_DECIMALS = 3


def roles_of(run: StoredRun) -> list[str]:
    """What each user is, in a few words."""
    users = run.tables["users"]
    return [
        f"member of head {head}" if head is not None else status
        for status, head in zip(users["status"], users["head"], strict=True)
    ]


def tips_of(run: StoredRun, users: NDArray[np.int64]) -> list[str]:
    """One text per user; the first line is its title."""
    heads = {row["head"]: row for row in _rows(run.tables["heads"])}
    table = run.tables["users"]
    num_users = len(table["user"])
    tips = []
    for user in users.tolist():
        row = {name: values[user] for name, values in table.items()}
        lines = _of_head(row, heads[user], num_users) if user in heads else _of_other(row)
        tips.append("\n".join(lines))
    return tips


def _rows(table: dict[str, list[Any]]) -> Iterable[dict[str, Any]]:
    return (dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True))


def _of_head(user: dict[str, Any], head: dict[str, Any], num_users: int) -> list[str]:
    lines = [
        f"User {user['user']}, head of {pluralize(head['members'], 'member')}",
        f"why: {head['why']}",
        f"EMD {number(head['emd'], _EMD_DECIMALS)}, rank {head['emd_rank']} of {num_users:,}; "
        f"linked to {pluralize(head['reaches'], 'user')}",
        f"sends {pluralize(int(head['shared']), 'sample')} to each, {percent(user['revealed_share'])} of its own",
        f"members' mean EMD {number(head['mean_emd_before'], _EMD_DECIMALS)} → "
        f"{number(head['mean_emd_after'], _EMD_DECIMALS)}",
    ]
    if head["worst_rate_bps"] is not None:
        lines.append(f"slowest link {quantity(head['worst_rate_bps'], 'bit/s')}")
    return lines


def _of_other(user: dict[str, Any]) -> list[str]:
    before, after, received = user["emd_before"], user["emd_after"], int(user["received"])
    role = f"member of head {user['head']}" if user["head"] is not None else user["status"]
    if not received:
        return [
            f"User {user['user']}, {role}",
            user["reason"] if user["head"] is None else "gained nothing: its head is to share no sample",
            f"holds {pluralize(user['samples'], 'sample')}, EMD {number(before, _EMD_DECIMALS)}",
        ]
    lines = [
        f"User {user['user']}, {role}{' by the server' if user['head'] is None else ''}",
        f"gained {pluralize(received, 'sample')}: {user['samples']:,} → {user['samples'] + received:,}",
        f"EMD {number(before, _EMD_DECIMALS)} → {number(after, _EMD_DECIMALS)} "
        f"({number(after - before, _EMD_DECIMALS)})",
    ]
    if user["rate_bps"] is not None:
        closeness = "" if user["closeness"] is None else f", closeness {number(user['closeness'], 2)}"
        lines.append(f"link {quantity(user['rate_bps'], 'bit/s')}{closeness}")
    return lines
