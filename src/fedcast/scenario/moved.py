"""Parameters that have moved into option tables: old names still load, and runs stored under them are found.

Until version 0.1 the options of all choices were keys of their section: ``clustering.shift_weight`` is now
``shift_weight`` in the table ``[clustering.blend]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]

# Section, old key → tables and the key in them. One old key may have been the option of several choices.
MOVED: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {
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
        "steps": (("jfvo", "steps"), ("jfvo_literal", "steps"), ("smm", "steps"), ("saa", "steps")),
        "surrogate_exponent": (
            ("jfvo", "surrogate_exponent"),
            ("jfvo_literal", "surrogate_exponent"),
            ("smm", "surrogate_exponent"),
        ),
        "iterate_exponent": (("jfvo", "iterate_exponent"), ("jfvo_literal", "iterate_exponent")),
    },
    "training": {"prox_weight": (("fedprox", "prox_weight"),)},
}
# Old spellings that stay as a shorthand, without a note.
SHORTHANDS = {("data", "file")}


def move_keys(section: str, given: Mapping[str, Any]) -> Tree:
    """Return a section's values with old keys moved into their tables; they win over what the tables hold."""
    moved = dict(given)
    for key, places in MOVED.get(section, {}).items():
        if key not in moved or isinstance(moved[key], Mapping):
            continue
        value = moved.pop(key)
        for table, name in places:
            before = moved.get(table)
            moved[table] = {**(before if isinstance(before, Mapping) else {}), name: value}
    return moved


def move_all(tree: Mapping[str, Any]) -> Tree:
    """Return a whole scenario's values with old keys moved into their tables."""
    return {
        name: move_keys(name, value) if name in MOVED and isinstance(value, Mapping) else value
        for name, value in tree.items()
    }


def moved_notes(tree: Mapping[str, Any]) -> list[str]:
    """Return a note for every old key in a scenario's values."""
    return [
        f"{section}.{key} has moved: write {' and '.join(f'{section}.{table}.{name}' for table, name in places)}"
        for section, keys in MOVED.items()
        for key, places in keys.items()
        if isinstance(values := tree.get(section), Mapping)
        and key in values
        and not isinstance(values[key], Mapping)
        and (section, key) not in SHORTHANDS
    ]
