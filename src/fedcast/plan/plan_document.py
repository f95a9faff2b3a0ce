"""The JSON form of a sharing plan, with a version and a schema, so that other programs can read and write it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedcast.errors import FedcastError
from fedcast.formatting import shown_value
from fedcast.io import write_file
from fedcast.plan.sharing_plan import Baseline, LeakagePoint, PrivacyPoint, RuleOutcome, SharingPlan
from fedcast.rounds import FormName, MeasureName
from fedcast.scenario import Scenario
from fedcast.text_files import parse_json, read_text

VERSION: Literal[1] = 1
Samples = Annotated[int, Field(ge=0, lt=2**63)]
NotNegative = Annotated[float, Field(ge=0)]

# An L1 distance of two distributions is at most 2, up to rounding; a JS divergence of 0 may be computed as -1e-17.
_MOST_L1, _LEAST_JS = 2.0 + 1e-9, -1e-9


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


class _PrivacyPoint(_Part):
    epsilon: float = Field(ge=0)
    delay_s: float = Field(ge=0)
    kind: str


class _Baseline(_Part):
    local_epochs: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    rounds: float = Field(ge=0)
    delay_s: float = Field(ge=0)


class _RuleOutcome(_Part):
    rule: str
    local_epochs: int | None = Field(ge=1)
    rounds: float | None = Field(ge=0)
    delay_s: float | None = Field(ge=0)
    average_sharing_ratio: float | None = Field(ge=0, le=1)


class PlanDocument(_Part):
    """The JSON form of a plan; lists have one entry per user, in order of ids."""

    version: Literal[1] = VERSION
    scenario: Scenario
    names: list[str] | None = Field(None, description="name of each user; null: users have ids alone")
    rule: str | None = Field(None, description="clustering rule; null in older plans: the scenario's")
    local_epochs: int | None = Field(None, ge=1, description="local epochs of a round; null in older plans: likewise")
    head_of: list[int] = Field(description="head of each user; -1: none")
    shared: list[Samples] = Field(description="samples that each head sends to each of its members")
    server_samples: float = Field(0.0, ge=0, description="samples that the server sends to each user")
    frequency_hz: list[NotNegative] = Field(description="CPU frequency; 0: the user does not train")
    energy_j: list[NotNegative] = Field(description="energy of each user per round")
    composition: Literal["own", "balanced"]
    emd_before: float = Field(ge=0, le=_MOST_L1, description="average EMD of the users that train, before sharing")
    emd_after: float = Field(ge=0, le=_MOST_L1, description="the same after sharing, in the scenario's weighting")
    js_before: float = Field(
        ge=_LEAST_JS, description="mean JS divergence of the users that train, before sharing, nats"
    )
    js_after: float = Field(ge=_LEAST_JS, description="the same after sharing")
    shift: float = Field(
        ge=0,
        le=_MOST_L1,
        description="L1 distance of the data of the users that train, after sharing, from all data",
    )
    rounds: float | None = Field(gt=0, description="expected rounds to the target accuracy; null: not predicted")
    rounds_interval: tuple[NotNegative, NotNegative] | None = Field(
        None, description="90 % prediction interval of the rounds of one run; null: not known"
    )
    without: _Baseline | None = Field(
        None, description="task without sharing, with the scenario's learning rate and smallest number of local epochs"
    )
    best_without: _Baseline | None = Field(
        None, description="task without sharing at its best local epochs and learning rate"
    )
    rounds_without: float | None = Field(None, gt=0, description="in older plans: rounds without sharing")
    delay: _Delay | None = Field(description="delay of the whole task; null: not predicted")
    delay_without_s: float | None = Field(None, gt=0, description="in older plans: delay of the task without sharing")
    not_predicted: str | None = Field(None, description="why rounds and delay are not predicted; null: they are")
    sharing_s: float | None = Field(None, ge=0, description="delay of sharing; null in older plans: that of delay")
    download_s: float | None = Field(None, ge=0, description="of one round; null in older plans: delay over rounds")
    compute_s: float | None = Field(None, ge=0, description="likewise")
    upload_s: float | None = Field(None, ge=0, description="likewise")
    sharing_j: float = Field(ge=0, description="energy of all heads for sharing")
    round_j: float | None = Field(
        None, ge=0, description="energy of all users per round; null in older plans: sum of energy_j"
    )
    sharing_bytes: float = Field(ge=0, description="bytes on the air for sharing")
    round_bytes: float = Field(ge=0, description="bytes of one round, both ways")
    average_sharing_ratio: float = Field(ge=0, le=1)
    leakage: list[_LeakagePoint] = Field(
        description="delay against the average sharing ratio if heads send raw samples"
    )
    privacy: list[_PrivacyPoint] = Field(
        [], description="delay against ε if heads send samples with differential privacy; empty: not known"
    )
    kinds: tuple[str, ...] | None = Field(
        None, description="kind of sharing of each user as a head, where the plan chose; null: the scenario's"
    )
    rules: list[_RuleOutcome] = Field([], description="the best plan of each rule, where the plan chose one")
    notes: list[str] = Field([], description="remarks on how the plan was made")
    assumptions: list[str] = Field([], description="what neither a table nor a parameter gives, and what would give it")
    passes: int = Field(ge=1)
    fit: str = Field(description="name of the fit of rounds against skew")
    form: FormName | None = Field(None, description="shape of that fit; null in older plans: the scenario's")
    measure: MeasureName = Field("emd", description="average skew that the fit is a function of")

    @model_validator(mode="after")
    def _check_users(self) -> PlanDocument:
        users = len(self.head_of)
        if not users:
            raise ValueError("head_of: there are no users")
        for name, times in Counter(self.names or []).items():
            if times > 1 or not name.strip() or not name.isprintable():
                raise ValueError(f"names: {name!r} is blank or the name of two users, or not printable")
        optional = [name for name in ("names", "kinds") if getattr(self, name) is not None]
        for name in ("shared", "frequency_hz", "energy_j", *optional):
            if len(getattr(self, name)) != users:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, head_of has {users}")
        for user, head in enumerate(self.head_of):
            if not -1 <= head < users or head == user or (head >= 0 and self.head_of[head] >= 0):
                raise ValueError(f"head_of: user {user} has head {head}, which is not the id of a head")
        return self


_ARRAYS: dict[str, Any] = {"head_of": np.int64, "shared": np.int64, "frequency_hz": np.float64, "energy_j": np.float64}
_PHASES = ("download_s", "compute_s", "upload_s")
# Plans made before rounds and delay could be unknown do not have these.
_YOUNGER = ("sharing_s", *_PHASES, "round_j")
_OLDER = ("rounds_without", "delay_without_s")
_PARTS = {"without": Baseline, "best_without": Baseline}
_LISTS: dict[str, type[Any]] = {"leakage": LeakagePoint, "privacy": PrivacyPoint, "rules": RuleOutcome}
_TEXTS = ("notes", "assumptions")
_OTHERS = (*_ARRAYS, *_YOUNGER, *_OLDER, *_PARTS, *_LISTS, "version", "scenario", "names", "delay", *_TEXTS)
_SCALARS = tuple(name for name in PlanDocument.model_fields if name not in _OTHERS)


def plan_to_json(plan: SharingPlan) -> str:
    """Return a plan as JSON text."""
    content = {
        "version": VERSION,
        "scenario": plan.scenario.model_dump(mode="json"),
        "names": None if plan.names is None else plan.names.tolist(),
        **{name: getattr(plan, name).tolist() for name in _ARRAYS},
        **{name: getattr(plan, name) for name in (*_SCALARS, *_YOUNGER)},
        "delay": plan.delay and vars(plan.delay),
        **{name: (part := getattr(plan, name)) and vars(part) for name in _PARTS},
        **{name: [vars(entry) for entry in getattr(plan, name)] for name in _LISTS},
        **{name: list(getattr(plan, name)) for name in _TEXTS},
    }
    return json.dumps(content, allow_nan=False) + "\n"


def plan_from_json(text: str, where: str = "plan") -> SharingPlan:
    """Return a plan from JSON text; errors name the path of the invalid field."""
    content = parse_json(text, where)
    found = content.get("version") if isinstance(content, dict) else None
    if found != VERSION:
        raise FedcastError(f"{where}: plan of version {found}; this fedcast reads version {VERSION}")
    try:
        document = PlanDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "value_error" else f"invalid value {shown_value(first['input'])}: "
        raise FedcastError(f"{where}: {path or 'plan'}: {value}{first['msg']}") from None
    values: dict[str, Any] = {name: np.array(getattr(document, name), dtype) for name, dtype in _ARRAYS.items()}
    values |= {name: tuple(getattr(document, name)) for name in _TEXTS}
    for name, kind in _LISTS.items():
        values[name] = tuple(kind(**vars(entry)) for entry in getattr(document, name))
    return SharingPlan(
        scenario=document.scenario,
        **values,
        names=None if document.names is None else np.array(document.names, dtype=np.str_),
        **{name: getattr(document, name) for name in _SCALARS} | _of_older_plans(document),
        **_costs(document, where),
    )


def _of_older_plans(document: PlanDocument) -> dict[str, Any]:
    """Return what older plans leave to their scenario, or have under another name."""
    scenario = document.scenario
    epochs, rate = document.local_epochs or scenario.training.epoch_choices[0], scenario.training.learning_rate
    parts = {name: part and kind(**vars(part)) for name, kind in _PARTS.items() for part in [getattr(document, name)]}
    rounds, delay_s = document.rounds_without, document.delay_without_s
    if parts["without"] is None and rounds is not None and delay_s is not None:
        parts["without"] = parts["best_without"] = Baseline(epochs, rate, rounds, delay_s)
    rule, form = document.rule or scenario.clustering.rule, document.form or scenario.rounds.form
    return {"rule": rule, "local_epochs": epochs, "form": form, **parts}


def _costs(document: PlanDocument, where: str) -> dict[str, Any]:
    """Return the cost of sharing and of a round, for older plans from the delay of the task."""
    costs = {name: getattr(document, name) for name in _YOUNGER}
    if None not in costs.values():
        return costs
    delay, rounds = document.delay, document.rounds
    if delay is None or rounds is None:
        raise FedcastError(f"{where}: sharing_s, download_s, compute_s, upload_s and round_j are missing")
    phases = {name: getattr(delay, name) / rounds for name in _PHASES}
    return {"sharing_s": delay.sharing_s, **phases, "round_j": float(np.sum(document.energy_j))}


def save_plan(plan: SharingPlan, path: str | Path) -> Path:
    """Write a plan atomically."""
    return write_file(path, plan_to_json(plan))


def load_plan(path: str | Path) -> SharingPlan:
    """Read a plan written by `save_plan` or `fedcast plan --json`."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise FedcastError(f"{path}: no such file; `fedcast plan --json {path}` writes one") from None
    return plan_from_json(text, str(path))


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan."""
    return PlanDocument.model_json_schema()
