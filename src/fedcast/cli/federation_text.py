"""The text of `fedcast federation`: how a run goes, and what is known of it in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Self

from fedcast.cli.output import LongProgress, plain_table, screen
from fedcast.formatting import pluralize, quantity

if TYPE_CHECKING:
    from fedcast.federation import RunState

_PLANNED = ("share", "train", "done")  #: phases after the plan was made
_LISTED = 10


class RunProgress(LongProgress):
    """A bar on standard error while a run goes on; where that is no terminal, a line for each phase and round."""

    def __init__(self, folder: Path, before: RunState) -> None:
        super().__init__()
        self._folder, self._planned = folder, before.phase in _PLANNED
        self._begins = {"describe": "starts", "done": ""}.get(before.phase, "continues")
        self._rounds = int(before.scenario["training"]["rounds"])
        self._said = {*before.measured_s, *_absence_events(before)}
        self._bar = self._bars.add_task("starting", total=self._rounds, state="")

    def __enter__(self) -> Self:
        if self._begins:
            self._say(f"run {self._folder.name} {self._begins} on the devices; Ctrl-C stops it, and it can be resumed")
        return super().__enter__()

    def show(self, state: RunState) -> None:
        """Show what is new: the plan, devices that are lost or back, phases and rounds."""
        if not self._planned and state.phase in _PLANNED:
            self._planned = True
            _print_plan(self._folder, state)
        accuracy = "" if state.accuracy is None else f"accuracy {state.accuracy:.3f}"
        for event in _absence_events(state):
            self._say_once(event, event)
        if not self._console.is_terminal:
            for name, seconds in state.measured_s.items():
                title = f"{name} of {self._rounds}" if name.startswith("round ") else name
                self._say_once(name, f"{title}: {', '.join([*self._what(name, state), quantity(seconds, 's')])}")
        missing = f"{pluralize(len(state.away), 'device')} away" if state.away else ""
        text = ", ".join(filter(None, (accuracy, missing)))
        self._bars.update(self._bar, description=state.phase, completed=rounds_done(state), state=text)

    @staticmethod
    def _what(name: str, state: RunState) -> list[str]:
        """Return what a phase did."""
        sent, members = _sent_and_served(state)
        done = {
            "describe": pluralize(len(state.devices), "device"),
            "share": f"{sent:,} bytes to {pluralize(members, 'member')}",
        }
        if name in state.accuracies:
            return [f"accuracy {state.accuracies[name]:.3f}"]
        return [done[name]] if name in done else []

    def _say_once(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self._say(text)


def rounds_done(state: RunState) -> int:
    """Return how many rounds are done."""
    return sum(key.startswith("round ") for key in state.measured_s)


def _sent_and_served(state: RunState) -> tuple[int, int]:
    """Return the bytes that heads sent, and how many members have all samples of their head."""
    answers = state.shared.values()
    return sum(int(one.get("bytes_sent", 0)) for one in answers), sum(len(one["delivered"]) for one in answers)


def where_it_is(state: RunState) -> str:
    """Return the phase of a run; in training with its rounds."""
    rounds = pluralize(int(state.scenario["training"]["rounds"]), "round")
    return f"{state.phase}, {rounds_done(state)} of {rounds} done" if state.phase == "train" else state.phase


def print_run(name: str, state: RunState, note: str = "") -> None:
    """Print phase, rounds and bytes of a run, measured beside planned seconds, and who did not answer."""
    rounds = [seconds for key, seconds in state.measured_s.items() if key.startswith("round ")]
    sent, members = _sent_and_served(state)
    table = plain_table("run", name)
    table.add_row("phase", state.phase)
    table.add_row("devices", f"{len(state.devices):,}")
    table.add_row("members that received samples", f"{members:,}")
    table.add_row("bytes sent while sharing", f"{sent:,}")
    table.add_row("rounds done", f"{len(rounds):,} of {int(state.scenario['training']['rounds']):,}")
    if state.accuracy is not None:
        table.add_row("accuracy", f"{state.accuracy:.4f}")
    for phase in ("describe", "plan", "share"):
        if phase in state.measured_s:
            table.add_row(f"{phase}, measured", quantity(state.measured_s[phase], "s"))
    if state.clock:
        table.add_row("share, planned", quantity(state.clock["sharing_s"], "s"))
        table.add_row("round, planned", quantity(state.clock["round_s"], "s"))
    if rounds:
        table.add_row("round, measured (median)", quantity(median(rounds), "s"))
        table.add_row("of which training (median)", quantity(median(state.training_s.values() or [0.0]), "s"))
    console = screen()
    console.print(table)
    for line in [*_absences(state)][-_LISTED:]:
        console.print(line, soft_wrap=True)
    if state.failure is not None:
        console.print(f"ended early: {state.failure}", soft_wrap=True)
    if note:
        console.print(note, soft_wrap=True)


def _absence_events(state: RunState) -> Iterator[str]:
    """Yield who did not answer or refused, and who is back, in this order."""
    for miss in state.missing:
        yield f"{miss['when']}: {miss['device']}: {miss['reason']}"
        if "back" in miss:
            yield f"{miss['back']}: {miss['device']} is back"


def _absences(state: RunState) -> Iterator[str]:
    """Yield one line for each device and reason: when it did not answer or refused, and whether it is back."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for miss in state.missing:
        groups.setdefault((miss["device"], miss["reason"]), []).append(miss)
    described = {device["name"] for device in state.devices}
    for (device, reason), misses in groups.items():
        first, last = misses[0]["when"], misses[-1]["when"]
        text = f"{device}: {reason} ({first if first == last else f'{first} to {last}'})"
        if "back" in misses[-1]:
            text += f", back since {misses[-1]['back']}"
        elif state.phase != "describe" and device not in described:
            text += ", not part of this run"
        yield text


def _print_plan(folder: Path, state: RunState) -> None:
    from fedcast.cli.plan_text import print_plan
    from fedcast.federation import described_world
    from fedcast.plan import load_plan

    made = load_plan(folder / "plan.json")
    print_plan(screen(), made, described_world(made.scenario, state.devices, folder), rules_option=False)
