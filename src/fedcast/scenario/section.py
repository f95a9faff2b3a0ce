"""Base classes of the sections of a scenario, and the types of their values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A table of the TOML file. Values are immutable; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _check_magnitude(cls, value: Any, info: ValidationInfo) -> Any:
        # Beyond these limits a product of a few values overflows.
        most = 1e3 if "_db" in str(info.field_name) else 1e15
        if isinstance(value, float) and not (value == 0 or 1e-60 <= abs(value) <= most):
            raise ValueError(f"expected 0, or a size from 1e-60 to {most:g}; units are SI")
        return value
