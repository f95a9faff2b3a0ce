"""Option tables of choices, such as ``[clustering.blend]``: validated here, handed out as the choice's dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, Field, create_model, model_validator

from fedcast import registry
from fedcast.scenario.base import Section


def table_model(options: type[Any]) -> type[Section]:
    """Return the pydantic model that validates the table of an options dataclass."""
    return _table_model(options)  # type: ignore[arg-type]


@cache
def _table_model(options: type[Any]) -> type[Section]:
    hints = get_type_hints(options)
    fields: dict[str, Any] = {field.name: (hints[field.name], _field(field)) for field in dataclasses.fields(options)}

    def build(self: BaseModel) -> BaseModel:
        options(**dict(self))  # checks of the dataclass itself, in its __post_init__
        return self

    validators: dict[str, Any] = {"_build": model_validator(mode="after")(build)}
    model: type[Section] = create_model(
        options.__name__, __base__=Section, __doc__=options.__doc__, __validators__=validators, **fields
    )
    return model


def _field(field: dataclasses.Field[Any]) -> Any:
    limits = field.metadata.get("limits", {})
    return Field(
        field.default, description=field.metadata.get("description", ""), validate_default=True, strict=None, **limits
    )


def validated_tables(section: str, tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Validate the option tables of a section and keep what differs from the defaults.

    Tables of choices that are not registered here (a plug-in that is not loaded) are kept as they are.
    """
    found = {name: registry.find_in_section(section, name) for name in tables}
    known = {name: choice for name, choice in found.items() if choice is not None}
    fields: dict[str, Any] = {name: (table_model(choice.options), ...) for name, choice in known.items()}
    checked = create_model("tables", __base__=Section, **fields).model_validate({name: tables[name] for name in known})
    kept = {name: _changed(getattr(checked, name), choice.options) for name, choice in known.items()}
    unknown = {name: dict(tables[name]) for name, choice in found.items() if choice is None}
    return {name: table for name, table in (kept | unknown).items() if table}


def _changed(table: Section, options: type[Any]) -> dict[str, Any]:
    defaults = options()
    return {name: value for name, value in table if value != getattr(defaults, name)}


def make_options(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """Return the options of a choice: its dataclass, with the values of its table."""
    return registry.find(kind, name).options(**table)
