"""Explain what is wrong with a scenario: where, what was found, and what is expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from fedcast.formatting import similar_name
from fedcast.registry import kinds_of, names
from fedcast.scenario.describe import accepted, field_at, is_section, section_at, unit_of, values_of
from fedcast.scenario.moved import MOVED
from fedcast.scenario.sections import TABLES, ChoiceSection, Scenario


@dataclass(frozen=True)
class Fault:
    """One invalid value: where it stands, what was found, and what is expected."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


def faults_of(error: ValidationError) -> list[Fault]:
    """Return the errors that pydantic found, each once."""
    return list(dict.fromkeys(_fault(detail) for detail in error.errors(include_url=False)))


def placed(faults: Iterable[Fault], text: str, elsewhere: Iterable[str] = ()) -> list[Fault]:
    """Return the faults with their lines in the TOML text, except of paths that are set elsewhere."""
    lines, others = lines_of_keys(text), set(elsewhere)

    def line_of(path: str) -> int | None:
        keys = path.split(".")
        above = [".".join(keys[:end]) for end in range(len(keys), 0, -1)]
        return None if others.intersection(above) else next((lines[key] for key in above if key in lines), None)

    return [replace(fault, line=line_of(fault.path)) for fault in faults]


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
        return Fault(path, message or f"expected a table [{path}], got {detail['input']!r}")
    expected = message or f"expected {accepted(keys[-1], field)}{_in_si_units(keys[-1], detail['input'])}"
    return Fault(path, f"invalid value {detail['input']!r}: {expected}")


_PREFIXES = {"": 1.0, "G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6, "µ": 1e-6}


def _in_si_units(name: str, value: Any) -> str:
    """Return what to write for values such as "28 GHz": the plain number in the field's unit."""
    unit = unit_of(name)
    if unit is None or not isinstance(value, str):
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
