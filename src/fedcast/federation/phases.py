"""The server of a federation: describe, plan, share, train. It knows devices by what they answer, and no engine.

Every phase has a time-out, records who did not answer, and is written to the folder of the run when it ends, so that a
run that was interrupted anywhere resumes with the phase that it was in; training resumes with the last round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedcast.data import Dataset, load_dataset, skew_of
from fedcast.errors import FedcastError
from fedcast.federation.answers import read_description, read_error, read_held, read_shared
from fedcast.federation.device.exchange import Messages
from fedcast.federation.device.samples import sample_format
from fedcast.federation.planning import plan_devices
from fedcast.federation.results import write_results
from fedcast.federation.state import PHASES, STATE_FILE, RunState, check_scenario, load_state, new_run, write_state
from fedcast.plan import Planned, SharingPlan, load_plan, save_plan
from fedcast.runs import clock_of
from fedcast.scenario import Scenario, model_name
from fedcast.training import (
    Clock,
    Outcome,
    Record,
    RemoteUsers,
    build_model,
    settings_to_dict,
    train_remotely,
    training_settings,
)

PLAN_FILE, HISTORY_FILE = "plan.json", "history.json"
RESULTS = "run"  #: folder in that of a run with its results, as those of a simulated run

_CHECKPOINT = "checkpoint.pt"
_NO_ANSWER, _NOT_CONNECTED, _NO_ANSWER_TO = "no answer", "not connected", "it did not answer"
# A device that did not answer is not waited for again, but looked for from time to time.
_LOOK_EVERY_S, _LOOK_FOR_S = 10.0, 1.0
# A device that answered before the heads shared answers at once after it, unless it is gone.
_SOON_S = 10.0


class Transport(Protocol):
    """Transport between the server and the devices."""

    def names(self) -> list[str]:
        """Return the devices that are there, in a fixed order."""
        ...

    def ask(self, call: str, requests: Messages, timeout_s: float) -> Messages:
        """Call a method of each named device with its request; return the answers of those that gave one in time.

        The answer of a device that refused or failed is ``{"error": reason}``.
        """
        ...


@dataclass(frozen=True)
class Timeouts:
    """Seconds that a device has in each phase."""

    describe_s: float = 60.0
    share_s: float = 600.0
    round_s: float = 600.0


@dataclass
class FederationResult:
    """A finished run: its plan, the outcome of training, and what the server knew."""

    plan: SharingPlan
    outcome: Outcome
    state: RunState


Report = Callable[[str], None]


class FederationRun:
    """One run of a scenario over devices; its folder holds all that is needed to resume it."""

    def __init__(
        self,
        folder: str | Path,
        transport: Transport,
        scenario: Scenario | None = None,
        *,
        dataset: Dataset | None = None,
        data_dir: str | Path | None = None,
        timeouts: Timeouts | None = None,
        expected: Sequence[str] = (),
        report: Report | None = None,
        progress: Callable[[Record], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        """Start a run, or resume the one in the folder.

        Args:
            folder: of the run; devices know the run by the name of its folder.
            transport: how devices are reached.
            scenario: all parameters; None: resume the run in the folder.
            dataset: its test samples score the model; None: the one that the scenario names.
            data_dir: where dataset files are looked for first.
            timeouts: seconds of each phase.
            expected: names of all devices of the project; those that are not there are named as missing.
            report: called with a line for people when something happens.
            progress: called after every round.
            should_stop: called after every round; if it returns true, training ends and can be resumed.
        """
        self.folder, self.transport, self.timeouts = Path(folder), transport, timeouts or Timeouts()
        self.expected, self.report = expected, report or (lambda _: None)
        self.progress, self.should_stop = progress, should_stop
        if (self.folder / STATE_FILE).exists():
            self.state = load_state(self.folder)
        elif scenario is None:
            raise FedcastError(f"{self.folder}: there is no run to resume")
        else:
            self.state = new_run(self.folder, scenario)
        self._away: set[str] = set()
        # Lost in a job before; the first answer to this one shows that they are back.
        self._lost = {miss["device"] for miss in self.state.missing if _is_silence(miss) and "back" not in miss}
        self._next_look = 0.0
        self._loaded = False
        self._planned: Planned | None = None
        self.scenario = check_scenario(Scenario.model_validate_json(json.dumps(self.state.scenario)))
        self.dataset = load_dataset(self.scenario.data, data_dir) if dataset is None else dataset

    def run(self) -> FederationResult:
        """Run all phases that are not done."""
        self.state.failure, resumed = None, self.state.phase == "train"
        self._save()
        steps = {"describe": self.describe, "plan": self.plan, "share": self.share}
        for phase in PHASES[PHASES.index(self.state.phase) : PHASES.index("train")]:
            started = time.monotonic()
            steps[phase]()
            self.state.measured_s[phase] = time.monotonic() - started
            self.state.phase = PHASES[PHASES.index(phase) + 1]
            self._save()
        if resumed:
            # Who was away while samples were shared may be back. Heads send nothing to members that have all of it.
            self.share(f"after round {sum(name.startswith('round ') for name in self.state.measured_s)}")
        outcome = self.train()
        if outcome.stopped is None:
            planned = self._planned or plan_devices(self.scenario, self.state.devices, self.folder)
            history, measured_s = outcome.history, self.state.measured_s
            write_results(self.folder / RESULTS, planned, self.state.shared, history, measured_s)
            self.state.phase = "done"
        self._save()
        return FederationResult(load_plan(self.folder / PLAN_FILE), outcome, self.state)

    def describe(self) -> None:
        """Ask devices for their keys, then, with the keys of all, whom they accept and how fast they reach them."""
        names = self.transport.names()
        self.report(f"describe: asking {len(names)} devices")
        for name in sorted(set(self.expected) - set(names)):
            self._miss(name, "describe", _NOT_CONNECTED)
        # Devices that have not entered the run do not answer each other.
        present = self._ask("alive", {name: {} for name in names}, self.timeouts.describe_s, "describe")
        first = self._ask("describe", {name: {} for name in present}, self.timeouts.describe_s)
        usable = self._usable(first)
        peers = {name: bytes.fromhex(device["keys"]) for name, device in usable.items()}
        requests = {name: {"peers": {other: keys for other, keys in peers.items() if other != name}} for name in usable}
        second = self._usable(self._ask("describe", requests, self.timeouts.describe_s))
        described = [second[name] for name in names if name in second]
        if not any(device["size"] for device in described):
            said = [f"{miss['device']}: {miss['reason']}" for miss in self.state.missing if not _is_silence(miss)]
            what = said[0] if said else "start devices and resume the run"
            raise FedcastError(f"describe: no device with samples answered; {what}")
        self.state.devices = described
        # Others have no part in the plan: it makes no difference when they are back.
        self._away &= set(self._names)

    def plan(self) -> None:
        """Plan on what was described; the tables are written beside the plan."""
        self._planned = planned = plan_devices(self.scenario, self.state.devices, self.folder)
        save_plan(planned.plan, self.folder / PLAN_FILE)
        self.state.clock = asdict(clock_of(planned))
        self.report(
            f"plan: {len(planned.plan.heads)} heads share with {int((planned.plan.head_of >= 0).sum())} members"
        )

    def share(self, when: str = "share") -> None:
        """Let every head send to its members; heads that were interrupted resume where they stopped.

        `when` is what the record says of devices that do not answer, or are back.
        """
        plan, names = load_plan(self.folder / PLAN_FILE), self._names
        # Members must be in the run before heads offer them anything.
        present = self._ask("alive", {name: {} for name in names}, self.timeouts.describe_s, when)
        requests: dict[str, dict[str, Any]] = {}
        for head in (head for head in plan.heads if names[head] in present):
            users = np.flatnonzero(plan.head_of == head)
            members = {names[user]: bytes.fromhex(self.state.devices[user]["keys"]) for user in users}
            requests[names[head]] = {
                "count": int(plan.shared[head]),
                "members": members,
                "kind": self.scenario.sharing.kind,
                "options": asdict(self.scenario.sharing.options("sharing")),
                "balanced": plan.composition == "balanced",
                "seed": self.scenario.seed,
                "user": int(head),
                "away": sorted(members.keys() - present.keys()),  # heads need not wait for these
            }
        answers = self._ask("share", requests, self.timeouts.share_s, when)
        for name, answer in answers.items():
            self._note_shared(name, answer, requests[name], when)
        soon = min(self.timeouts.describe_s, _SOON_S)
        present = self._ask("alive", {name: {} for name in present if name not in self._away}, soon, when)
        # A device that is away keeps what it had.
        held = self.state.samples or [int(device["size"]) for device in self.state.devices]
        self.state.samples = [
            self._held(user, present.get(names[user]), count, plan) for user, count in enumerate(held)
        ]
        served = sum(len(answer["delivered"]) for answer in self.state.shared.values())
        self.report(f"share: {served} members received samples")

    def train(self) -> Outcome:
        """Train all rounds that the checkpoint does not hold."""
        plan, state, scenario = load_plan(self.folder / PLAN_FILE), self.state, self.scenario
        settings = training_settings(scenario.training, plan.local_epochs)
        name = model_name(scenario)
        options = scenario.training.options("model", name)
        spec = self.dataset.sample_shape, self.dataset.num_classes
        model = build_model(name, *spec, scenario.seed, options=options)
        task = {
            "settings": settings_to_dict(settings), "model": name, "model_options": asdict(options),
            "seed": scenario.seed, "num_users": len(self._names),
        }  # fmt: skip
        tasks = [json.dumps(task | {"user": user}) for user in range(len(self._names))]

        def ask(number: int, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
            self._look_for_away(f"round {number}")
            started = time.monotonic()
            of_name = {
                self._names[user]: {"number": number, "task": tasks[user], **request}
                for user, request in requests.items()
                if self._names[user] not in self._away
            }
            # Before their first round devices load the model and the libraries that train it.
            loading_s = 0.0 if self._loaded else self.timeouts.describe_s
            answers = self._ask("train_round", of_name, self.timeouts.round_s + loading_s, f"round {number}")
            self._loaded = True
            self.state.measured_s[f"round {number}"] = time.monotonic() - started
            slowest = max((_seconds(answer) for answer in answers.values()), default=0.0)
            self.state.training_s[f"round {number}"] = slowest
            return {self._names.index(name): answer for name, answer in answers.items()}

        counts = np.array([device["counts"] for device in state.devices])
        trained = np.where(plan.trained, np.array(state.samples), 0)
        users = RemoteUsers(trained, counts.sum(axis=1), skew_of(counts).distributions)
        per_user = {name: tuple(state.clock[name]) for name in ("user_s", "user_j")}
        clock = Clock(**{**state.clock, **per_user})
        outcome = train_remotely(
            ask, users, self.dataset, model, replace(settings, checkpoint_every=1), seed=scenario.seed, clock=clock,
            checkpoint=self.folder / _CHECKPOINT, progress=self._after_round, should_stop=self.should_stop,
        )  # fmt: skip
        outcome.history.save(self.folder / HISTORY_FILE)
        return outcome

    def _look_for_away(self, when: str) -> None:
        """Ask devices that did not answer, every few seconds, whether they are back."""
        if not self._away or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_EVERY_S
        request = {"run": self.state.run}
        back = self.transport.ask("alive", dict.fromkeys(self._away, request), _LOOK_FOR_S)
        for name in sorted(self._away & back.keys()):
            self._returned(name, when)

    def _after_round(self, record: Record) -> None:
        self.state.accuracy = record.accuracy
        self.state.accuracies[f"round {record.round}"] = record.accuracy
        self._save()
        if self.progress is not None:
            self.progress(record)

    def _ask(self, call: str, requests: Messages, timeout_s: float, when: str | None = None) -> Messages:
        """Ask devices, and note who is not there, does not answer or refuses."""
        run, present = {"run": self.state.run}, set(self.transport.names())
        asked = {name: {**request, **run} for name, request in requests.items() if name in present}
        answers = self.transport.ask(call, asked, timeout_s)
        good = {}
        for name in requests:
            answer = answers.get(name)
            silent = _NO_ANSWER if name in present else _NOT_CONNECTED
            reason = silent if answer is None else read_error(answer)
            if answer is None:
                self._away.add(name)
            elif name in self._away | self._lost:
                self._returned(name, when or call)
            if answer is None or reason is not None:
                self._miss(name, when or call, str(reason))
            else:
                good[name] = answer
        return good

    def _miss(self, name: str, when: str, reason: str) -> None:
        self.state.missing.append({"device": name, "when": when, "reason": reason})
        self.report(f"{when}: {name}: {reason}")

    def _returned(self, name: str, when: str) -> None:
        """Note that a device answers again."""
        self._away.discard(name)
        self._lost.discard(name)
        for miss in self.state.missing:
            if miss["device"] == name and _is_silence(miss):
                miss.setdefault("back", when)
        self.report(f"{when}: {name} is back")

    def _usable(self, answers: Messages) -> dict[str, dict[str, Any]]:
        """Return the descriptions that are valid and whose samples are those of the federation."""
        expected = self.dataset.sample_shape, self.dataset.num_classes, self.dataset.scale
        usable = {}
        for name, answer in answers.items():
            if (device := read_description(name, answer)) is None:
                self._miss(name, "describe", "an invalid description")
                continue
            found = sample_format(device["format"])
            if (found.shape, found.num_classes, found.scale) == expected:
                usable[name] = device
            else:
                self._miss(name, "describe", f"samples of another format: {found}, expected {expected}")
        return usable

    def _held(self, user: int, answer: Mapping[str, Any] | None, before: int, plan: SharingPlan) -> int:
        """Return how many samples a device trains on: a number that the plan allows, else what was known before."""
        head = plan.head_of[user]
        most = int(self.state.devices[user]["size"]) + (int(plan.shared[head]) if head >= 0 else 0)
        held = None if answer is None else read_held(answer, most)
        return before if held is None else held

    def _note_shared(self, head: str, answer: Mapping[str, Any], request: Mapping[str, Any], when: str) -> None:
        """Note what a head says of its members."""
        found = read_shared(answer, request["members"], request["count"])
        if found is None:
            self._miss(head, when, "an invalid answer")
            return
        for name in found["untrusted"]:
            self._miss(name, when, f"{head} does not trust it")
        for name, reason in found["rejected"].items():
            self._miss(name, when, f"it rejected the samples of {head}: {reason}")
        for name in found["silent"]:
            self._miss(name, when, f"{_NO_ANSWER_TO} {head}")
        before = self.state.shared.get(head, {}).get("bytes_sent", 0)
        self.state.shared[head] = {**found, "bytes_sent": before + found["bytes_sent"]}

    @property
    def _names(self) -> list[str]:
        return [str(device["name"]) for device in self.state.devices]

    def _save(self) -> None:
        self.state.away = sorted(self._away)
        write_state(self.folder, self.state)


def _is_silence(miss: Mapping[str, str]) -> bool:
    """Return whether a device did not answer, rather than refuse."""
    return miss["reason"].startswith((_NO_ANSWER, _NOT_CONNECTED, _NO_ANSWER_TO))


def _seconds(answer: Mapping[str, Any]) -> float:
    """Return how long a device says that it trained; whatever is not a time counts as none."""
    found = answer.get("seconds")
    return float(found) if isinstance(found, float) and 0 <= found < float("inf") else 0.0
