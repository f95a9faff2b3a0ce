"""Describe what the fields of a scenario accept, for error messages and the comments of `fedcast init`."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from fedcast.registry import find_in_section
from fedcast.scenario.option_tables import table_model
from fedcast.scenario.section import Section
from fedcast.scenario.sections import ChoiceSection, Scenario

_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts", bool: "true or false values"}

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
    limits = [word for constraint in field.metadata for word in _limits(constraint)] + _inner_limits(field.annotation)
    return ", ".join([kind + (f" in {unit}" if unit else ""), *dict.fromkeys(limits)])


def comment(name: str, field: FieldInfo) -> str:
    """Return meaning, unit and range of a field, on one line."""
    what = accepted(name, field)
    return f"{field.description}; {what}" if what != _KINDS[str] else str(field.description)


def _kind(annotation: Any) -> str:
    annotation = _bare(annotation)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in parts)
    if get_origin(annotation) is tuple:
        entries = _PLURALS[_bare(parts[0])]
        return f"a list of {entries}" if parts[-1] is Ellipsis else f"{len(parts)} {entries} [a, b]"
    return _KINDS[annotation]


def _bare(annotation: Any) -> Any:
    """The type behind Optional and Annotated."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _inner_limits(annotation: Any) -> list[str]:
    """Limits that stand inside an Optional[Annotated[...]] or a tuple."""
    inner = [metadata for part in get_args(annotation) for metadata in getattr(part, "__metadata__", ())]
    return [
        word for metadata in inner for limit in getattr(metadata, "metadata", [metadata]) for word in _limits(limit)
    ]


def _limits(constraint: Any) -> list[str]:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return [f"{sign} {getattr(constraint, name)}" for name, sign in signs.items() if hasattr(constraint, name)]
