"""Base classes of the tables of a scenario, and the option tables of choices, such as ``[clustering.blend]``."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.scenario.moved import MOVED, SHORTHANDS, move_keys

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]

# What a file or an override says for None, which TOML cannot write.
UNSET = "unset"
# Alias of the field that holds the option tables of a section.
TABLES = "option tables"


class Section(BaseModel, frozen=True, extra="forbid", strict=True, allow_inf_nan=False):
    """A table of the TOML file. Values are immutable; unknown keys are errors."""

    @field_validator("*", mode="before")
    @classmethod
    def _read_unset(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str) or value != UNSET:
            return value
        types = get_args(cls.model_fields[str(info.field_name)].annotation)
        return None if type(None) in types or None in types else value

    @field_validator("*")
    @classmethod
    def _check_magnitude(cls, value: Any, info: ValidationInfo) -> Any:
        # Beyond these limits a product of a few values overflows.
        most = 1e3 if "_db" in str(info.field_name) else 1e15
        if isinstance(value, float) and not (value == 0 or 1e-60 <= abs(value) <= most):
            raise ValueError(f"expected 0, or a size from 1e-60 to {most:g}; units are SI")
        if isinstance(value, int) and abs(value) > most and info.field_name != "seed":
            raise ValueError(f"expected at most {most:g}")
        return value


class ChoiceSection(Section):
    """A section that chooses plug-ins by name and holds their option tables, ``[section.name]``."""

    section: ClassVar[str]

    #: By name of the choice, the options that differ from their defaults. No key of a file has this alias, so a table
    #: named `tables` is none of the section.
    tables: dict[str, dict[str, Any]] = Field({}, validation_alias=TABLES, description="options of choices, by name")

    @model_validator(mode="before")
    @classmethod
    def _collect_tables(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        given = move_keys(cls.section, given)
        values = cls.model_fields.keys() - {"tables"}
        tables = {
            key: value
            for key, value in given.items()
            if key not in values and (isinstance(value, Mapping) or registry.find_in_section(cls.section, key))
        }
        own = {key: value for key, value in given.items() if key not in tables}
        return {**own, TABLES: tables} if tables else own

    @field_validator("tables", mode="plain")
    @classmethod
    def _check_tables(cls, tables: Any) -> dict[str, dict[str, Any]]:
        return validated_tables(cls.section, tables)

    @model_serializer(mode="wrap")
    def _flatten(self, serialise: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        content = serialise(self)
        tables = content.pop("tables", {})
        return {**content, **tables}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an option by the name that it had as a key of the section, for one release."""
            places = MOVED.get(type(self).section, {}).get(name)
            if places is None:
                return super().__getattr__(name)
            table, key = places[0]
            if (self.section, name) not in SHORTHANDS:
                moved = f"{self.section}.{name} has moved to {self.section}.{table}.{key}"
                warnings.warn(f"{moved}; use .options(kind, {table!r}).{key}", DeprecationWarning, stacklevel=2)
            return getattr(self.options(registry.find_in_section(self.section, table).kind, table), key)

    def options(self, kind: str, name: str | None = None) -> Any:
        """Return the options of a choice as its dataclass; None: of the choice that this section names."""
        chosen: str = getattr(self, registry.KINDS[kind].key) if name is None else name
        return make_options(kind, chosen, self.tables.get(chosen, {}))


def table_model(options: type[Any]) -> type[Section]:
    """Return the pydantic model that validates the table of an options dataclass."""
    return _table_model(options)  # type: ignore[arg-type]


@cache
def _table_model(options: type[Any]) -> type[Section]:
    hints = get_type_hints(options)
    fields: dict[str, Any] = {field.name: (hints[field.name], _field(field)) for field in dataclasses.fields(options)}
    if reserved := [name for name in fields if name.startswith("_") or hasattr(Section, name)]:
        raise FedcastError(f"option table {options.__qualname__}: {reserved[0]} is a reserved name; choose another")

    def build(self: BaseModel) -> BaseModel:
        try:
            options(**dict(self))  # checks of the dataclass itself, in its __post_init__
        except Exception as error:
            raise ValueError(str(error) or type(error).__name__) from error
        return self

    validators: dict[str, Any] = {"_build": model_validator(mode="after")(build)}
    model: type[Section] = create_model(
        options.__name__, __base__=Section, __doc__=options.__doc__, __validators__=validators, **fields
    )
    try:
        model()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise FedcastError(f"option table {options.__qualname__}: invalid default of {name}: {first['msg']}") from None
    return model


def _field(field: dataclasses.Field[Any]) -> Any:
    # TOML has lists where a dataclass has tuples.
    strict = False if isinstance(field.default, tuple) else None
    description, limits = field.metadata.get("description", ""), field.metadata.get("limits", {})
    return Field(field.default, description=description, validate_default=True, strict=strict, **limits)


def validated_tables(section: str, tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Validate the option tables of a section and keep what differs from the defaults.

    Tables of choices that are not registered here (a plug-in that is not loaded) are kept as they are.
    """
    found = {name: registry.find_in_section(section, name) for name in tables}
    known = {name: choice.options for name, choice in found.items() if choice is not None}
    checked = _tables_model(tuple(known.items())).model_validate({name: tables[name] for name in known})
    kept = {name: dict(table) for name, table in tables.items()}
    for name, options in known.items():
        usual = options()
        kept[name] = {key: value for key, value in getattr(checked, f"table_{name}") if value != getattr(usual, key)}
    return {name: table for name, table in kept.items() if table}


@cache
def _tables_model(known: tuple[tuple[str, type[Any]], ...]) -> type[Section]:
    """Return the model of several option tables, by name; making one takes far longer than using it."""
    # Attributes have a prefix of their own, since a choice may have the name of a method of pydantic.
    fields: dict[str, Any] = {
        f"table_{name}": (table_model(options), Field(validation_alias=name)) for name, options in known
    }
    return create_model("tables", __base__=Section, **fields)


def make_options(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """Return the options of a choice: its dataclass, with the values of its table."""
    options = registry.find(kind, name).options
    try:
        # A stored scenario, read before its plug-in was loaded, holds what the file says.
        return options(**(dict(table_model(options).model_validate(table)) if UNSET in table.values() else table))
    except TypeError as error:  # a stored scenario of another version of a plug-in
        section = registry.KINDS[kind].section
        raise FedcastError(f"invalid table [{section}.{name}] {dict(table)}: {error}") from None
