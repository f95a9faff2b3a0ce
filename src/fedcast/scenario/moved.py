"""Parameters that have moved into option tables: old names still load, and runs stored under them are found.

Until version 0.1 the options of all choices were keys of their section: ``clustering.shift_weight`` is now
``shift_weight`` in the table ``[clustering.blend]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]
Places = tuple[tuple[str, str], ...]

# Section, old key → tables and the key in them. One old key may have been the option of several choices.
MOVED: dict[str, dict[str, Places]] = {
    "data": {
        "file": (("file", "path"),),
        "single_class_share": (("label_skew", "single_class_share"),),
        "alpha": (("dirichlet", "alpha"),),
        "min_samples": (("dirichlet", "min_samples"), ("quantity", "min_samples")),
        "quantity_alpha": (("quantity", "alpha"),),
        "classes_per_user": (("shards", "classes_per_user"),),
        "noise_level": (("noise", "level"),),
        "concept": (("concept", "change"),),
        "concept_groups": (("concept", "groups"),),
        "indices_file": (("indices", "file"),),
        "text_stride": (("shakespeare", "stride"), ("tiny_shakespeare", "stride")),
        "samples_per_user": (("synthetic", "samples_per_user"),),
        "num_classes": (("synthetic", "num_classes"),),
    },
    "clustering": {
        "order": (("daca", "order"),),
        "scan": (("daca", "scan"),),
        "num_clusters": (("random", "num_clusters"),),
        "respect_graph": (("random", "respect_graph"),),
        "shift_weight": (("blend", "shift_weight"),),
        "time_limit_s": (("exact", "time_limit_s"),),
    },
    "allocation": {
        "fixed_ratio": (("fixed", "ratio"),),
        "steps": tuple((method, "steps") for method in ("jfvo", "jfvo_literal", "smm", "saa")),
        "surrogate_exponent": tuple((method, "surrogate_exponent") for method in ("jfvo", "jfvo_literal", "smm")),
        "iterate_exponent": tuple((method, "iterate_exponent") for method in ("jfvo", "jfvo_literal")),
    },
    "training": {"prox_weight": (("fedprox", "prox_weight"),)},
}
# Old spellings that stay as a shorthand, without a note.
SHORTHANDS = {("data", "file")}


def move_keys(section: str, given: Mapping[str, Any]) -> Tree:
    """Return a section's values with old keys moved into their tables; they win over what the tables hold."""
    moved = dict(given)
    for key, places in _old_keys(section, given):
        value = moved.pop(key)
        for table, name in places:
            before = moved.get(table)
            moved[table] = {**(before if isinstance(before, Mapping) else {}), name: value}
    return moved


def move_all(tree: Mapping[str, Any]) -> Tree:
    """Return a whole scenario's values with old keys moved into their tables."""
    return {name: move_keys(name, value) if isinstance(value, Mapping) else value for name, value in tree.items()}


def moved_note(tree: Mapping[str, Any]) -> str:
    """Return a note on all old keys in a scenario's values; empty: there are none."""
    moved = [
        f"{section}.{key} is now {' and '.join(f'{section}.{table}.{name}' for table, name in places)}"
        for section in MOVED
        for key, places in _old_keys(section, tree.get(section))
        if (section, key) not in SHORTHANDS
    ]
    return f"keys have moved: {', '.join(moved)}" if moved else ""


def set_twice(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are set under both names: new path, old path."""
    return {
        f"{section}.{table}.{name}": f"{section}.{key}"
        for section in MOVED
        for key, places in _old_keys(section, tree.get(section))
        for table, name in places
        if isinstance(options := tree[section].get(table), Mapping) and name in options
    }


def _old_keys(section: str, values: Any) -> list[tuple[str, Places]]:
    """Return the old keys among a section's values; a table of such a name is none."""
    keys = MOVED.get(section, {}) if isinstance(values, Mapping) else {}
    return [(key, places) for key, places in keys.items() if key in values and not isinstance(values[key], Mapping)]
