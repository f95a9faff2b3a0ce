"""Fills pages that are made from the code, so that they cannot fall behind it."""

from __future__ import annotations

from typing import Any

from fedcast.data import PARTITIONS
from fedcast.scenario import PRESETS, Scenario
from fedcast.scenario.describe import accepted, is_section


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace `{{ scenario }}`, `{{ presets }}` and `{{ partitions }}` by what the package says."""
    for mark, make in (("{{ scenario }}", _scenario), ("{{ presets }}", _presets), ("{{ partitions }}", _partitions)):
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def _scenario() -> str:
    default = Scenario()
    parts = ["| key | default | accepts | meaning |", "|---|---|---|---|", _row("seed", default)]
    for name, field in Scenario.model_fields.items():
        if is_section(field):
            section = getattr(default, name)
            summary = (section.__doc__ or "").strip().splitlines()[0]
            parts += ["", f"## [{name}]", "", summary, "", "| key | default | accepts | meaning |", "|---|---|---|---|"]
            parts += [_row(key, section) for key in type(section).model_fields]
    return "\n".join(parts)


def _row(key: str, section: Any) -> str:
    field = type(section).model_fields[key]
    value = getattr(section, key)
    shown = "unset" if value is None else f"`{value}`"
    return f"| `{key}` | {shown} | {accepted(key, field)} | {field.description} |"


def _presets() -> str:
    lines = []
    for name, sections in PRESETS.items():
        changes = [f"`{section}.{key} = {value}`" for section, keys in sections.items() for key, value in keys.items()]
        lines.append(f"- **{name}**: {', '.join(changes) if changes else 'the defaults below'}")
    return "\n".join(lines)


def _partitions() -> str:
    lines = ["| name | what it does | every sample used |", "|---|---|---|"]
    for name, partition in PARTITIONS.items():
        lines.append(f"| `{name}` | {partition.summary} | {'yes' if partition.complete else 'not always'} |")
    return "\n".join(lines)
