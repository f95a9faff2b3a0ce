"""What a scenario's fields accept, in words: for error messages and for the comments of `fedcast init`."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from fedcast.scenario.sections import Scenario, Section

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
    """Whether the field is a table of the file, not a value."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, Section)


def field_at(keys: Sequence[str]) -> FieldInfo | None:
    """The field at a path such as ("sidelink", "power_w"); None where there is none."""
    section: type[Section] = Scenario
    field: FieldInfo | None = None
    for key in keys:
        field = section.model_fields.get(key)
        if field is None:
            return None
        if is_section(field):
            section = field.annotation  # type: ignore[assignment]
    return field


def unit_of(name: str) -> str | None:
    """The unit that a field's name ends with.

    Example:
        >>> unit_of("min_rate_bps"), unit_of("num_users")
        ('bit/s', None)
    """
    return next((unit for ending, unit in _UNIT_WORDS.items() if name.endswith(ending)), None)


def accepted(name: str, field: FieldInfo) -> str:
    """What a field accepts, for example ``a number in W, > 0``."""
    kind = _kind(field.annotation)
    if kind.startswith("one of"):
        return kind
    unit = unit_of(name)
    limits = [word for constraint in field.metadata for word in _limits(constraint)]
    limits += [word for word in _inner_limits(field.annotation) if word not in limits]
    return ", ".join([kind + (f" in {unit}" if unit else ""), *limits])


def comment(name: str, field: FieldInfo) -> str:
    """Meaning, unit and range of a field, on one line."""
    what = accepted(name, field)
    return f"{field.description}; {what}" if what != _KINDS[str] else str(field.description)


def _kind(annotation: Any) -> str:
    annotation = _bare(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        parts = get_args(annotation)
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
