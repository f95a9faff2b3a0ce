"""Describe what the fields of a scenario accept and what is wrong with values, for errors and for `fedcast init`."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from fedcast.formatting import shown_value, similar_name
from fedcast.registry import find_in_section, kinds_of, names
from fedcast.scenario.moved import MOVED
from fedcast.scenario.option_tables import TABLES, UNSET, ChoiceSection, Section, table_model
from fedcast.scenario.sections import Scenario

_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "texts", bool: "true or false values"}

_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
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


def parameter(key: str) -> tuple[Any, str]:
    """Return default and meaning of a parameter or option by dotted key; (None, "") if it is not known here.

    Example:
        >>> parameter("training.momentum")
        (0.0, 'local momentum')
    """
    field = field_at(key.split("."))
    return (None, "") if field is None else (field.default, field.description or "")


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
    # Limits stand beside the type, or inside an Optional[Annotated[...]] or a tuple.
    inside = [metadata for part in get_args(field.annotation) for metadata in getattr(part, "__metadata__", ())]
    given = [*field.metadata, *(one for metadata in inside for one in getattr(metadata, "metadata", [metadata]))]
    limits = [f"{sign} {getattr(one, key)}" for one in given for key, sign in _SIGNS.items() if hasattr(one, key)]
    return ", ".join([kind + (f" in {unit}" if unit else ""), *dict.fromkeys(limits)])


def comment(name: str, field: FieldInfo) -> str:
    """Return meaning, unit and range of a field, on one line."""
    what = accepted(name, field)
    return f"{field.description}; {what}" if what != _KINDS[str] else str(field.description)


def _kind(annotation: Any) -> str:
    several = any(get_origin(part) is tuple for part in get_args(annotation))
    if several and get_origin(annotation) in (Union, types.UnionType):
        return f"{_kind(_bare(annotation))} or a list of them"
    annotation = _bare(annotation)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in parts)
    if get_origin(annotation) is tuple:
        entries = _PLURALS[_bare(parts[0])]
        return f"a list of {entries}" if parts[-1] is Ellipsis else f"{len(parts)} {entries} [a, b]"
    return _KINDS[annotation]


def _bare(annotation: Any) -> Any:
    """Return the type behind Optional and Annotated."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@dataclass(frozen=True)
class Fault:
    """One invalid value: where it stands, what was found, and what is expected."""

    path: str
    message: str


def faults_of(error: ValidationError) -> list[Fault]:
    """Return the errors that pydantic found, each once."""
    return list(dict.fromkeys(_fault(detail) for detail in error.errors(include_url=False)))


def fault_lines(
    faults: Iterable[Fault], text: str = "", source: str = "", overrides: Iterable[str] = (), setter: str = "--set"
) -> str:
    """Return one line per fault: the source and its line, or ``--set`` for paths that overrides set, and the fault."""
    lines, others = lines_of_keys(text), set(overrides)

    def where(path: str) -> list[str]:
        keys = path.split(".")
        above = [".".join(keys[:end]) for end in range(len(keys), 0, -1)]
        below = path not in lines and any(other.startswith(f"{path}.") for other in others)
        if below or others.intersection(above):
            return [f"{setter} {path}"]
        if path.startswith("--set "):
            return [path]
        number = next((lines[key] for key in above if key in lines), None)
        return [source, f"line {number}" if number else "", path]

    return "\n".join(": ".join(filter(None, [*where(fault.path), fault.message])) for fault in faults)


def _fault(detail: Mapping[str, Any]) -> Fault:
    location = [str(part) for part in detail["loc"] if part != TABLES]
    if detail["type"] == "extra_forbidden":
        return Fault(".".join(location), unknown_key(location))
    # The rest of a location counts the entries of a list.
    keys = next((location[:end] for end in (1, 2, 3) if field_at(location[:end])), location)
    path = ".".join(keys)
    message = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else ""
    field = field_at(keys)
    if field is None:
        return Fault(path, message or f"expected a table [{path}], got {_value_text(detail['input'])}")
    expected = message or f"expected {accepted(keys[-1], field)}{_in_si_units(keys[-1], detail['input'])}"
    return Fault(path, f"invalid value {_value_text(detail['input'])}: {expected}")


def _value_text(value: Any) -> str:
    """Return an invalid value as TOML writes it; text in single quotes, to be told from the file's."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    return UNSET if value is None else str(value).lower() if isinstance(value, bool) else shown_value(value)


# The time to match a text grows with the square of its length.
_LONGEST_QUANTITY = 40
_PREFIXES = {"": 1.0, "G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6, "µ": 1e-6}


def _in_si_units(name: str, value: Any) -> str:
    """Return what to write for values such as "28 GHz": the plain number in the field's unit."""
    unit = unit_of(name)
    if unit is None or not isinstance(value, str) or len(value) > _LONGEST_QUANTITY:
        return ""
    number = re.fullmatch(rf"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([GMkmuµ]?){re.escape(unit)}\s*", value)
    if number is None:
        return ""
    return f"; write {float_text(float(number[1]) * _PREFIXES[number[2]])}"


def unknown_key(location: Sequence[str]) -> str:
    """Return the message on a key that does not exist, with the nearest one that does."""
    *parents, key = location
    section, known = ".".join(parents), _keys_of(parents)
    if other := _other_unit(key, known):
        return f"unknown key; did you mean {other}? Its unit is the end of its name"
    near, home = similar_name(key, known), _home_of(key)
    if meant := (near or home if parents else home or near) or _moved_to(section, key):
        return f"unknown key; did you mean {meant}?"
    where = f"[{section}]" if parents else "a scenario"
    return f"unknown key; {where} has {', '.join(known) or 'no keys'}"


def _moved_to(section: str, key: str) -> str:
    """Return the option that a key of the section has become."""
    moved = MOVED.get(section, {})
    return " and ".join(f"{section}.{table}.{name}" for table, name in moved.get(similar_name(key, moved) or "", ()))


def _keys_of(parents: Sequence[str]) -> list[str]:
    section = section_at(parents)
    if section is None:
        return []
    if section is Scenario:
        return list(Scenario.model_fields)
    if issubclass(section, ChoiceSection):
        return [*values_of(section), *(name for kind in kinds_of(section.section) for name in names(kind))]
    return list(values_of(section))


def _home_of(key: str) -> str | None:
    """Return the full path of a key that was written outside its section."""
    homes = [name for name, field in Scenario.model_fields.items() if is_section(field) and key in _keys_of([name])]
    return f"{homes[0]}.{key}" if len(homes) == 1 else None


_UNITS = r"_(dbm_hz|per_m2|ghz|mhz|khz|hz|mw|kw|w|dbm|db|ms|us|s|km|cm|m|mj|kj|j|kbps|mbps|gbps|bps)$"


def _other_unit(key: str, known: Iterable[str]) -> str | None:
    """Return the key that differs in its unit only, as `power_w` for `power_mw`."""
    stem = re.sub(_UNITS, "", key)
    return next((name for name in known if name != key and re.sub(_UNITS, "", name) == stem), None)


def lines_of_keys(text: str) -> dict[str, int]:
    """Return the line of each `section.key` of a TOML text (1-based); of old keys also under their new paths."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        # Quotes around keys change nothing; [[table]] is an error, reported with its line.
        bare = re.sub(r"""["']""", "", line.partition("=")[0])
        if header := re.match(r"\s*\[+\s*([\w.\-]+)\s*\]", bare):
            section = header[1] + "."
            lines.setdefault(header[1], number)
        elif "=" in line and (key := re.fullmatch(r"\s*([\w.\-]+)\s*", bare)):
            lines.setdefault(section + key[1], number)
    moved = {
        f"{section}.{table}.{name}": lines[f"{section}.{key}"]
        for section, keys in MOVED.items()
        for key, places in keys.items()
        if f"{section}.{key}" in lines
        for table, name in places
    }
    return moved | lines


def float_text(value: float) -> str:
    """Return the shortest text of a number, with an exponent where that reads better."""
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
        return f"{mantissa}e{int(exponent)}"
    return repr(value)
