"""Tables of one federation, under whatever labels its users have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcast.io import save_table

USERS = 12
NAMES = [f"node-{letter}" for letter in "kbxqwzaplmtc"]


def write_tables(folder: Path, label, users=range(USERS), suffix=".csv") -> dict[str, Path]:
    """Tables of some users of one federation under their labels, rows of each table in another order."""
    rng = np.random.default_rng(7)
    counts, places = rng.integers(0, 60, (USERS, 3)), rng.uniform(-200, 200, (USERS, 2))
    budgets = rng.uniform(0.3, 0.6, USERS)
    pairs = [(a, b) for a in range(USERS) for b in range(a) if rng.random() < 0.4]
    closeness = rng.uniform(0.4, 1.0, len(pairs))
    kept = [place for place, (a, b) in enumerate(pairs) if a in users and b in users]
    ordered, mixed = list(users), list(reversed(list(users)))
    columns = {
        "counts": {
            "user": [label(u) for u in ordered],
            **{f"c{c}": [int(counts[u, c]) for u in ordered] for c in (0, 1, 2)},
        },
        "positions": {
            "user": [label(u) for u in mixed],
            "x_m": [places[u, 0] for u in mixed],
            "y_m": [places[u, 1] for u in mixed],
        },
        "devices": {"user": [label(u) for u in mixed], "energy_budget_j": [budgets[u] for u in mixed]},
        "links": {
            "user_a": [label(pairs[p][0]) for p in kept],
            "user_b": [label(pairs[p][1]) for p in kept],
            "closeness": [closeness[p] for p in kept],
        },
    }
    return {name: save_table(values, folder / f"{name}{suffix}") for name, values in columns.items()}
