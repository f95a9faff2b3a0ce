"""The scenario on a page: what differs from the defaults, and all parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from fedcast import registry
from fedcast.formatting import quantity
from fedcast.report.html import Markup, note, scrolled, table, tag
from fedcast.scenario import Scenario, to_toml, unit_of

_PREFIXED = ("Hz", "W", "J", "m", "bit/s")


def differences_table(rows: Iterable[tuple[str, str, str, str]]) -> Markup:
    """Return a table of `differences`."""
    titles, changed = ("parameter", "value", "default", "meaning"), list(rows)
    if not changed:
        return note("Every parameter has its default.")
    return scrolled(table(titles, changed, "words"), "What differs from the defaults")


def whole_scenario(scenario: Scenario) -> Markup:
    """Return all parameters as TOML, folded."""
    toml = tag("pre", tag("code", to_toml(scenario)))
    return tag("details", tag("summary", "All parameters, as TOML"), toml)


def differences(
    scenario: Scenario,
    plugin_options: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    left_out: Collection[str] = (),
) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, value, default and meaning of each parameter that differs from its default.

    `plugin_options` has default and meaning of options of plug-ins, by dotted key; see `StoredRun.plugin_options`.
    Keys in `left_out` are not listed.
    """
    default = Scenario()
    for section_name in Scenario.model_fields:
        section, usual = getattr(scenario, section_name), getattr(default, section_name)
        if not isinstance(section, BaseModel):  # seed and plugins
            continue
        for name, field in type(section).model_fields.items():
            value, key = getattr(section, name), f"{section_name}.{name}"
            if name == "tables":
                options = _option_differences(section_name, value, plugin_options)
                yield from (line for line in options if line[0] not in left_out)
            elif value != getattr(usual, name) and key not in left_out:
                yield key, value_text(name, value), value_text(name, getattr(usual, name)), field.description or ""
    if scenario.plugins:
        yield "plugins", ", ".join(scenario.plugins), "none", Scenario.model_fields["plugins"].description or ""


def _option_differences(
    section: str, tables: Mapping[str, Mapping[str, Any]], plugin_options: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same of the options of choices; a plug-in that is not loaded has all its options in its table."""
    for choice_name, values in tables.items():
        choice = registry.find_in_section(section, choice_name)
        fields = {} if choice is None else registry.option_fields(choice.options)
        for name, value in values.items():
            key, default, meaning = f"{section}.{choice_name}.{name}", "unknown", ""
            if name in fields:
                default, meaning = value_text(name, fields[name].default), fields[name].metadata.get("description", "")
            elif key in plugin_options:
                default, meaning = value_text(name, plugin_options[key][0]), plugin_options[key][1]
            if value_text(name, value) != default:
                yield key, value_text(name, value), default, meaning


def value_text(name: str, value: object) -> str:
    """Return the value of a parameter, with the unit of its name."""
    if value is None:
        return "unset"
    if not isinstance(value, float):
        return str(value)
    unit = unit_of(name)
    if unit in _PREFIXED:
        return quantity(value, unit)
    text = f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    return f"{text} {unit}" if unit else text
