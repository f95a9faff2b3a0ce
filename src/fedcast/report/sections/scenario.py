"""The scenario: what differs from the defaults, and all of it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from fedcast.formatting import quantity
from fedcast.report.content import Content
from fedcast.report.markup import Markup, tag
from fedcast.report.sections.parts import scrolled, table
from fedcast.scenario import Scenario, to_toml
from fedcast.scenario.describe import unit_of

_PREFIXED = ("Hz", "W", "J", "m", "bit/s")
# These are what is compared; the comparison names them.
COMPARED = ("seed", "clustering.rule", "allocation.method", "training.algorithm")


def scenario_section(content: Content) -> Markup:
    """A table of what differs, and the file behind a fold."""
    changed = list(differences(content.scenario))
    note = "What is compared (rule, method, algorithm, seed) stands in the comparison."
    shown = (
        scrolled(
            table(("parameter", "value", "default", "meaning"), changed, "words"), "What differs from the defaults"
        )
        if changed
        else tag("p", "Every parameter has its default.", class_="note")
    )
    return tag(
        "section",
        tag("h2", "Scenario"),
        shown,
        tag("p", note, class_="note"),
        tag("details", tag("summary", "All parameters, as TOML"), tag("pre", tag("code", to_toml(content.scenario)))),
        id="scenario",
    )


def differences(scenario: Scenario) -> Iterator[tuple[str, str, str, str]]:
    """Parameters that differ from their defaults: name, value, default and meaning."""
    default = Scenario()
    for section_name in Scenario.model_fields:
        if section_name == "seed":
            continue
        section, usual = getattr(scenario, section_name), getattr(default, section_name)
        for name, field in type(section).model_fields.items():
            value, key = getattr(section, name), f"{section_name}.{name}"
            if value != getattr(usual, name) and key not in COMPARED:
                yield key, _text(name, value), _text(name, getattr(usual, name)), _meaning(field)


def _text(name: str, value: object) -> str:
    if value is None:
        return "unset"
    if not isinstance(value, float):
        return str(value)
    unit = unit_of(name)
    if unit in _PREFIXED:
        return quantity(value, unit)
    text = f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    return f"{text} {unit}" if unit else text


def _meaning(field: FieldInfo) -> str:
    return field.description or ""
