"""Plans as JSON, with a version and a schema, so that other programs can carry them out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.plan.sharing_plan import Delay, LeakagePoint, SharingPlan
from fedcast.rounds import FormName, MeasureName
from fedcast.scenario import Scenario

VERSION: Literal[1] = 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Delay(_Part):
    sharing_s: float = Field(ge=0)
    download_s: float = Field(ge=0)
    compute_s: float = Field(ge=0)
    upload_s: float = Field(ge=0)


class _LeakagePoint(_Part):
    average_sharing_ratio: float = Field(ge=0, le=1)
    delay_s: float = Field(ge=0)


class PlanDocument(_Part):
    """The JSON form of a plan; lists have one entry per user, in order of ids."""

    version: Literal[1] = VERSION
    scenario: Scenario
    names: list[str] | None = Field(None, description="name of each user; null: users have ids alone")
    head_of: list[int] = Field(description="head of each user; -1: none")
    shared: list[int] = Field(description="samples that each head sends to each of its members")
    frequency_hz: list[float] = Field(description="CPU frequency; 0: the user does not train")
    energy_j: list[float] = Field(description="energy of each user per round")
    composition: Literal["own", "balanced"]
    emd_before: float = Field(description="average EMD of the users that train, before sharing")
    emd_after: float = Field(description="the same after sharing, in the scenario's weighting")
    js_before: float = Field(description="mean JS divergence of the users that train, before sharing, nats")
    js_after: float = Field(description="the same after sharing")
    shift: float = Field(description="L1 distance of what the users that train hold after sharing from all data")
    rounds: float
    rounds_without: float
    delay: _Delay
    delay_without_s: float
    sharing_j: float
    sharing_bytes: float
    round_bytes: float
    average_sharing_ratio: float = Field(ge=0, le=1)
    leakage: list[_LeakagePoint]
    passes: int
    fit: str = Field(description="name of the fit of rounds against skew")
    form: FormName | None = Field(None, description="shape of that fit; null in older plans: the scenario's")
    measure: MeasureName = Field("emd", description="average skew that the fit is a function of")

    @model_validator(mode="after")
    def _one_entry_per_user(self) -> PlanDocument:
        users = len(self.head_of)
        named = Counter(self.names or [])
        if strange := [name for name, times in named.items() if times > 1 or not name.strip()]:
            raise ValueError(f"names: {strange[0]!r} is blank, or two users have it")
        for name in ("shared", "frequency_hz", "energy_j", *(["names"] if self.names is not None else [])):
            if len(getattr(self, name)) != users:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, head_of has {users}")
        for user, head in enumerate(self.head_of):
            if not -1 <= head < users or head == user or (head >= 0 and self.head_of[head] >= 0):
                raise ValueError(f"head_of: user {user} has head {head}, which is no user that leads")
        return self


_ARRAYS = ("head_of", "shared", "frequency_hz", "energy_j")
_SCALARS = tuple(
    name
    for name in PlanDocument.model_fields
    if name not in (*_ARRAYS, "version", "scenario", "names", "delay", "leakage")
)


def plan_to_json(plan: SharingPlan) -> str:
    """A plan as JSON text."""
    content: dict[str, Any] = {"version": VERSION, "scenario": plan.scenario.model_dump(mode="json")}
    content["names"] = None if plan.names is None else plan.names.tolist()
    content |= {name: getattr(plan, name).tolist() for name in _ARRAYS}
    content |= {name: getattr(plan, name) for name in _SCALARS}
    content["delay"] = vars(plan.delay)
    content["leakage"] = [vars(point) for point in plan.leakage]
    return json.dumps(content, allow_nan=False) + "\n"


def plan_from_json(text: str, where: str = "plan") -> SharingPlan:
    """A plan from JSON text; what is wrong with it is said with the field's path."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise FedcastError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        found = content.get("version") if isinstance(content, dict) else None
        raise FedcastError(f"{where}: plan of version {found}; this fedcast reads version {VERSION}")
    try:
        document = PlanDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise FedcastError(f"{where}: {path or 'plan'}: {first['msg']}") from None
    return SharingPlan(
        scenario=document.scenario,
        head_of=np.array(document.head_of, dtype=np.int64),
        shared=np.array(document.shared, dtype=np.int64),
        frequency_hz=np.array(document.frequency_hz),
        energy_j=np.array(document.energy_j),
        delay=Delay(**document.delay.model_dump()),
        leakage=tuple(LeakagePoint(**point.model_dump()) for point in document.leakage),
        form=document.form or document.scenario.rounds.form,
        names=None if document.names is None else np.array(document.names, dtype=np.str_),
        **{name: getattr(document, name) for name in _SCALARS if name != "form"},
    )


def save_plan(plan: SharingPlan, path: str | Path) -> Path:
    """Write a plan; written aside and then renamed."""
    path = Path(path)
    with atomic_write(path) as aside:
        aside.write_text(plan_to_json(plan), encoding="utf-8")
    return path


def load_plan(path: str | Path) -> SharingPlan:
    """Read a plan."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FedcastError(f"{path}: no such file; `fedcast plan --json {path}` writes one") from None
    except UnicodeDecodeError:
        raise FedcastError(f"{path}: not UTF-8 text") from None
    return plan_from_json(text, str(path))


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan."""
    return PlanDocument.model_json_schema()
