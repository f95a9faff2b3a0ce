"""Describe what the fields of a scenario accept, for error messages and the comments of `fedcast init`."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from fedcast.registry import find_in_section
from fedcast.scenario.base import Section
from fedcast.scenario.options import table_model
from fedcast.scenario.sections import ChoiceSection, Scenario

_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}

_UNIT_WORDS = {
    "_dbm_hz": "dBm/Hz",
    "_per_m2": "1/m²",
    "_bps": "bit/s",
    "_hz": "Hz",
    "_db": "dB",
    "_w": "W",
    "_j": "J",
    "_s": "s",
    "_m": "m",
}


def is_section(field: FieldInfo) -> bool:
    """Return whether the field is a table of the file, not a value."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)


def values_of(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields of a section that hold a value, by name."""
    return {name: field for name, field in section.model_fields.items() if name != "tables" and not is_section(field)}


def section_at(keys: Sequence[str]) -> type[Section] | None:
    """Return the section or option table at a path such as ("clustering", "blend"); None: there is none."""
    section: type[Section] = Scenario
    for key in keys:
        field = section.model_fields.get(key)
        if field is not None and is_section(field):
            section = field.annotation  # type: ignore[assignment]
        elif issubclass(section, ChoiceSection) and (choice := find_in_section(section.section, key)):
            section = table_model(choice.options)
        else:
            return None
    return section


def field_at(keys: Sequence[str]) -> FieldInfo | None:
    """Return the value's field at a path such as ("sidelink", "power_w"); None: there is none."""
    section = section_at(keys[:-1])
    return None if section is None else values_of(section).get(keys[-1])


def unit_of(name: str) -> str | None:
    """Return the unit that a field's name ends with.

    Example:
        >>> unit_of("min_rate_bps"), unit_of("num_users")
        ('bit/s', None)
    """
    return next((unit for ending, unit in _UNIT_WORDS.items() if name.endswith(ending)), None)


def accepted(name: str, field: FieldInfo) -> str:
    """Return what a field accepts, for example ``a number in W, > 0``."""
    kind = _kind(field.annotation)
    if kind.startswith("one of"):
        return kind
    unit = unit_of(name)
    limits = [word for constraint in field.metadata for word in _limits(constraint)]
    limits += [word for word in _inner_limits(field.annotation) if word not in limits]
    return ", ".join([kind + (f" in {unit}" if unit else ""), *limits])


def comment(name: str, field: FieldInfo) -> str:
    """Return meaning, unit and range of a field, on one line."""
    what = accepted(name, field)
    return f"{field.description}; {what}" if what != _KINDS[str] else str(field.description)


def _kind(annotation: Any) -> str:
    annotation = _bare(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        parts = get_args(annotation)
        if parts[-1] is Ellipsis:
            return "a list of texts"
        return f"{len(parts)} numbers [a, b]"
    return _KINDS[annotation]


def _bare(annotation: Any) -> Any:
    """The type behind Optional and Annotated."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    return annotation


def _inner_limits(annotation: Any) -> list[str]:
    """Limits that stand inside an Optional[Annotated[...]] or a tuple."""
    found = []
    for part in get_args(annotation):
        for metadata in getattr(part, "__metadata__", ()):
            for constraint in getattr(metadata, "metadata", [metadata]):
                found += _limits(constraint)
    return list(dict.fromkeys(found))


def _limits(constraint: Any) -> list[str]:
    match constraint:
        case annotated_types.Ge(limit):
            return [f">= {limit}"]
        case annotated_types.Gt(limit):
            return [f"> {limit}"]
        case annotated_types.Le(limit):
            return [f"<= {limit}"]
        case annotated_types.Lt(limit):
            return [f"< {limit}"]
        case _:
            return []
