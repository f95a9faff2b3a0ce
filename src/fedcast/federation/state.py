"""The state of a run, in a file of its folder; reading it needs no PyTorch, so that commands are quick."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedcast.clustering import from_server
from fedcast.errors import FedcastError
from fedcast.federation.device.valid_names import NAME_RULE, is_name
from fedcast.io import write_file
from fedcast.scenario import BEST_KIND, Scenario, missing_files, with_absolute_paths
from fedcast.sharing import find_sharing
from fedcast.text_files import parse_json, read_text

STATE_FILE = "federation.json"
PHASES = ("describe", "plan", "share", "train", "done")

_VERSION = 1


@dataclass
class RunState:
    """State of the server, written after every phase; devices are in the order of the plan's users."""

    run: str  #: name of the run and of its folder; devices know it by this name
    scenario: dict[str, Any]
    phase: str = "describe"
    devices: list[dict[str, Any]] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)  #: of each device after sharing
    shared: dict[str, Any] = field(default_factory=dict)  #: answers of the heads
    clock: dict[str, Any] = field(default_factory=dict)
    #: who did not answer or refused, when and why, and since when it is back
    missing: list[dict[str, Any]] = field(default_factory=list)
    measured_s: dict[str, float] = field(default_factory=dict)  #: of phases and rounds
    training_s: dict[str, float] = field(default_factory=dict)  #: of the slowest device in each round, on the device
    accuracy: float | None = None  #: of the model on the test samples, after the last round
    accuracies: dict[str, float] = field(default_factory=dict)  #: the same after every round
    away: list[str] = field(default_factory=list)  #: devices that did not answer and have not come back
    failure: str | None = None  #: why the run ended before it was done


def new_run(folder: str | Path, scenario: Scenario) -> RunState:
    """Return the state of a run that has not begun; its name is that of its folder, which must be new to devices."""
    name = Path(folder).resolve().name
    if not is_name(name):
        raise FedcastError(f"invalid value {name!r} for the folder of a run: {NAME_RULE}")
    return RunState(name, scenario.model_dump(mode="json"))


def start_run(folder: str | Path, scenario: Scenario) -> RunState:
    """Write a run that has not begun into a new folder, for a server in another process of this host."""
    if missing := missing_files(check_scenario(scenario)):
        raise FedcastError("\n".join(missing))
    state = new_run(folder, with_absolute_paths(scenario))
    if (Path(folder) / STATE_FILE).exists():
        raise FedcastError(f"{folder}: there is a run already; resume it, or use another folder")
    write_state(folder, state)
    return state


def record_failure(folder: str | Path, reason: str) -> None:
    """Note in the folder of a run why it ended."""
    state = load_state(folder)
    state.failure = reason
    write_state(folder, state)


def write_state(folder: str | Path, state: RunState) -> None:
    """Write the state of a run into its folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_file(Path(folder) / STATE_FILE, json.dumps({"version": _VERSION, **asdict(state)}, indent=1))


def load_state(folder: str | Path) -> RunState:
    """Read what the server of a run wrote."""
    path = Path(folder) / STATE_FILE
    try:
        content = parse_json(read_text(path), str(path))
        if content.pop("version") == _VERSION:
            return RunState(**content)
    except FileNotFoundError:
        raise FedcastError(f"{path}: no such file; `fedcast federation run` writes one") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise FedcastError(f"{path}: not the state of a run: {error}") from None
    raise FedcastError(f"{path}: of another version of fedcast")


def check_scenario(scenario: Scenario) -> Scenario:
    """Raise an error for what a federation cannot do."""
    faults = []
    rule = scenario.clustering.rule
    if from_server(rule):
        faults.append(f"invalid value {rule!r} for clustering.rule: the server of a federation has no samples to send")
    kind = scenario.sharing.kind
    if kind == BEST_KIND or (kind != "raw" and not find_sharing(kind).private):
        faults.append(f"invalid value {kind!r} for sharing.kind: expected raw, or a kind with differential privacy")
    if scenario.data.descriptor != "classes":
        faults.append(f"invalid value {scenario.data.descriptor!r} for data.descriptor: devices describe classes")
    if scenario.training.model_file is not None:
        faults.append("training.model_file: devices run installed code only; name a model that is installed on them")
    if scenario.training.upload != "full":
        faults.append(f"invalid value {scenario.training.upload!r} for training.upload: devices upload all weights")
    if scenario.training.user_test != "labels":
        faults.append(f"invalid value {scenario.training.user_test!r} for training.user_test: expected labels")
    if (epochs := scenario.training.fine_tune_epochs) > 0:
        faults.append(f"invalid value {epochs} for training.fine_tune_epochs: devices do not fine-tune; use 0")
    clocked = [name for name in ("deadline_s", "over_selection", "buffer_size") if getattr(scenario.training, name)]
    faults += [f"training.{name}: it is judged by the simulated clock; unset it for real devices" for name in clocked]
    if scenario.training.dropout_file is not None:
        faults.append("training.dropout_file: on real devices nobody knows before who drops out")
    if faults:
        raise FedcastError("\n".join(faults))
    return scenario
