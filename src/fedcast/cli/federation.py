"""The commands `fedcast federation …`: a federation on real devices, or as a trial on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario
from fedcast.cli.output import plain_table, progress_bars, screen
from fedcast.errors import FedcastError
from fedcast.formatting import pluralize, quantity

if TYPE_CHECKING:
    from fedcast.federation import DeviceLedger, Project, RunState

federation = typer.Typer(name="federation", no_args_is_help=True, help="Run a plan on real devices.")

_ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
_DeviceFolder = Annotated[Path, typer.Argument(metavar="DEVICE", help="Folder of the device: PROJECT/devices/NAME.")]
_PLANNED = ("share", "train", "done")  #: phases after the plan was made
_DescribeTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a device has to load and describe.")]
_ShareTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a head has to share.")]
_RoundTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a device has for a round.")]


@federation.command()
def init(
    project: _ProjectFolder,
    device: Annotated[list[str] | None, typer.Option(help="Name of a device; repeat it for each.")] = None,
    host: Annotated[str, typer.Option(help="Host name of the server; localhost: it listens on loopback alone.")] = (
        "localhost"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the server.")] = 8002,
    trial: Annotated[
        Path | None, typer.Option(help="A scenario, or the name of a preset: its users become devices here.")
    ] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
) -> None:
    """Make a project: certificates, one start-up kit per device, with its trust and consent files."""
    from fedcast.federation import fill_trial, make_project

    console, names = screen(), list(device or [])
    scenario = None
    if trial is not None:
        if names:
            raise FedcastError("--trial makes devices of the scenario's users: remove --device")
        file, preset = (trial, None) if trial.suffix == ".toml" else (None, str(trial))
        scenario = read_scenario(file, preset, overrides, usual="digits")
        names = [f"site-{user}" for user in range(scenario.data.num_users)]
    made = make_project(project, names, host, port)
    if scenario is not None:
        fill_trial(made, scenario, data_dir)
        console.print(f"{len(names)} devices in {made.folder}; start them with: fedcast federation up {project}")
        return
    console.print(f"start the server: fedcast federation start {project / 'server'}", soft_wrap=True)
    console.print(f"send each folder in {made.folder / 'devices'} to its owner, who runs there:", soft_wrap=True)
    console.print("  fedcast federation samples DEVICE samples.npz\n  fedcast federation keys DEVICE")
    console.print("owners compare fingerprints by voice, then edit device/trust.toml and device/consent.toml:")
    console.print("  fedcast federation start DEVICE")


@federation.command()
def keys(device: _DeviceFolder) -> None:
    """Print the fingerprint of a device's keys; without keys, draw them. Run it on the device."""
    from fedcast.federation import device_name, grouped, load_or_create_keys

    name = device_name(device)
    typer.echo(f"{name}: {grouped(load_or_create_keys(device / 'device' / 'keys.pem').public.fingerprint)}")


@federation.command()
def samples(
    device: _DeviceFolder,
    file: Annotated[Path, typer.Argument(help="An .npz with inputs and labels, as for data.dataset = file.")],
) -> None:
    """Import the samples of a device; they stay on it. Run it on the device."""
    import numpy as np

    from fedcast.federation import samples_of_arrays, write_samples

    if not (device / "device").is_dir():
        raise FedcastError(f"{device}: not the folder of a device; expected the folder device in it")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            inputs, labels = arrays["inputs"], arrays["labels"]
            classes = int(arrays["num_classes"]) if "num_classes" in arrays else None
    except (OSError, ValueError, KeyError) as error:
        raise FedcastError(f"{file}: expected an .npz with inputs and labels ({error})") from None
    write_samples(device / "device" / "data", samples_of_arrays(inputs, labels, classes))
    typer.echo(f"{len(labels):,} samples in {device / 'device' / 'data'}")


@federation.command()
def start(
    folder: Annotated[Path, typer.Argument(help="PROJECT/server, or the folder of a device.")],
) -> None:
    """Run the server or a device in the foreground until it is stopped."""
    from fedcast.federation import start_device, start_server

    if (folder / "startup" / "fed_server.json").exists():
        start_server(folder)
    elif (folder / "flare" / "startup").is_dir():
        start_device(folder)
    else:
        raise FedcastError(f"{folder}: neither the folder of a server nor that of a device")


@federation.command()
def up(
    project: _ProjectFolder,
    only: Annotated[
        list[str] | None, typer.Option(help="Start this one alone: server, or a device; repeat it.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until devices are connected.")] = 60.0,
) -> None:
    """Start the server and all devices of a project in the background of this machine."""
    from fedcast.federation import load_project, start_process, wait_for_devices

    made = load_project(project)
    names = only or ["server", *made.devices]
    for name in names:
        start_process(made, name)
    devices = [name for name in names if name != "server"]
    found = wait_for_devices(made, devices, wait)
    typer.echo(f"{len(found)} of {len(devices)} devices are connected; logs are in {made.folder / 'logs'}")
    if missing := [name for name in devices if name not in found]:
        raise FedcastError(f"not connected after {wait:g} s: {', '.join(missing)}")


@federation.command()
def down(
    project: _ProjectFolder,
    only: Annotated[list[str] | None, typer.Option(help="Stop this alone: server, or a device; repeat it.")] = None,
) -> None:
    """Stop what `up` started."""
    from fedcast.federation import load_project, stop_process

    made = load_project(project)
    stopped = [name for name in (only or [*made.devices, "server"]) if stop_process(made, name)]
    typer.echo(f"stopped {len(stopped)} processes" if stopped else "nothing was running")


@federation.command()
def run(
    project: _ProjectFolder,
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    describe_timeout: _DescribeTimeout = 60.0,
    share_timeout: _ShareTimeout = 600.0,
    round_timeout: _RoundTimeout = 600.0,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for devices that are not connected.")] = 30.0,
) -> None:
    """Describe, plan, share and train over the devices that are connected."""
    from fedcast.federation import load_project, start_run

    made = load_project(project)
    scenario = read_scenario(path, preset, overrides, usual="digits")
    folder = made.folder / "runs" / time.strftime("%Y%m%d-%H%M%S")
    start_run(folder, scenario)
    timeouts = {"describe_s": describe_timeout, "share_s": share_timeout, "round_s": round_timeout}
    _follow(made, folder, wait, timeouts)


@federation.command()
def resume(
    project: _ProjectFolder,
    name: Annotated[str | None, typer.Argument(metavar="RUN", help="Name of the run; default: the last.")] = None,
    describe_timeout: _DescribeTimeout = 60.0,
    share_timeout: _ShareTimeout = 600.0,
    round_timeout: _RoundTimeout = 600.0,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for devices that are not connected.")] = 30.0,
) -> None:
    """Resume a run in the phase, or after the round, in which it ended."""
    from fedcast.federation import load_project

    made = load_project(project)
    timeouts = {"describe_s": describe_timeout, "share_s": share_timeout, "round_s": round_timeout}
    _follow(made, _run_folder(made, name), wait, timeouts)


@federation.command()
def status(
    project: _ProjectFolder,
    name: Annotated[str | None, typer.Argument(metavar="RUN", help="Name of the run; default: the last.")] = None,
) -> None:
    """Print who is there, and the phase, rounds and bytes of a run."""
    from fedcast.federation import connected_devices, load_project, load_state

    made, console = load_project(project), screen()
    try:
        found = connected_devices(made, timeout_s=3.0)
        console.print(f"server {made.host}:{made.port}, {len(found)} of {len(made.devices)} devices are connected")
        if missing := [each for each in made.devices if each not in found]:
            console.print(f"not connected: {', '.join(missing)}", soft_wrap=True)
    except FedcastError:
        console.print(f"server {made.host}:{made.port} does not answer")
    if name is None and not (made.folder / "runs").is_dir():
        console.print("no runs yet")
        return
    folder = _run_folder(made, name)
    _print_run(folder.name, load_state(folder))


@federation.command()
def ledger(device: _DeviceFolder) -> None:
    """Print what a device sent, received and refused. Run it on the device."""
    found = _ledger_of(device)
    table = plain_table("time of the device", "event", "with", "what", numbers=False)
    for entry in found.entries():
        table.add_row(
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at)), entry.event, entry.peer, entry.detail
        )
    console = screen()
    console.print(table)
    console.print(f"{found.num_revealed():,} different samples were sent; spent ε = {found.epsilon_spent():g}")
    found.close()


@federation.command()
def forget(
    device: _DeviceFolder,
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Run as `ledger` prints it; default: all runs.")
    ] = None,
) -> None:
    """Delete the samples that a device received from others. Run it on the device.

    The ledger stays: it counts what was sent against the consent, and recognises replays.
    """
    from fedcast.federation import forget_received

    found = _ledger_of(device)
    held = found.runs_with_samples()
    if name is not None and name not in held:
        known = ", ".join(held) or "none"
        raise FedcastError(f"no samples of run {name!r} are stored here; runs with samples: {known}")
    deleted = forget_received(device / "device", found, name)
    found.close()
    typer.echo(f"deleted {pluralize(deleted, 'sample')} of {pluralize(1 if name else len(held), 'run')}")


def _ledger_of(device: Path) -> DeviceLedger:
    from fedcast.federation import DeviceLedger

    path = device / "device" / "ledger.sqlite"
    if not path.exists():
        raise FedcastError(f"{path}: no such file; the device has not been started yet")
    return DeviceLedger(path)


def _follow(project: Project, folder: Path, wait: float, timeouts: dict[str, float]) -> None:
    from rich.console import Console

    from fedcast.federation import load_state, run_to_end

    before = load_state(folder)
    rounds, planned = int(before.scenario["training"]["rounds"]), before.phase in _PLANNED
    with progress_bars(Console(stderr=True)) as bars:
        task = bars.add_task("starting", total=rounds, state="")

        def show(state: RunState) -> None:
            nonlocal planned
            if not planned and state.phase in _PLANNED:
                planned = True
                _print_plan(folder, state)
            done = sum(key.startswith("round ") for key in state.measured_s)
            accuracy = "" if state.accuracy is None else f"accuracy {state.accuracy:.3f}"
            missing = f"{len(state.missing)} answers missing" if state.missing else ""
            bars.update(
                task, description=state.phase, completed=done, state=", ".join(filter(None, (accuracy, missing)))
            )

        state = run_to_end(project, folder, timeouts, wait, show)
    if state.failure is not None:
        raise FedcastError(f"{state.failure}\nresume it with: fedcast federation resume {project.folder} {folder.name}")
    _print_run(folder.name, state)
    typer.echo(f"results are in {folder}; a page of them: fedcast report {folder}")


def _print_plan(folder: Path, state: RunState) -> None:
    from fedcast.cli.plan_text import print_plan
    from fedcast.federation import described_world
    from fedcast.plan import load_plan

    made = load_plan(folder / "plan.json")
    print_plan(screen(), made, described_world(made.scenario, state.devices, folder))


def _print_run(name: str, state: RunState) -> None:
    console = screen()
    rounds = [seconds for key, seconds in state.measured_s.items() if key.startswith("round ")]
    sent = sum(int(answer.get("bytes_sent", 0)) for answer in state.shared.values())
    members = sum(len(answer["delivered"]) for answer in state.shared.values())
    table = plain_table("run", name)
    table.add_row("phase", state.phase)
    table.add_row("devices", f"{len(state.devices):,}")
    table.add_row("members that received samples", f"{members:,}")
    table.add_row("bytes sent while sharing", f"{sent:,}")
    table.add_row("rounds done", f"{len(rounds):,}")
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
    console.print(table)
    for miss in state.missing[-10:]:
        console.print(f"{miss['when']}: {miss['device']}: {miss['reason']}", soft_wrap=True)
    if state.failure is not None:
        console.print(f"ended early: {state.failure}", soft_wrap=True)


def _run_folder(project: Project, name: str | None) -> Path:
    runs = project.folder / "runs"
    found = sorted(folder.name for folder in runs.iterdir()) if runs.is_dir() else []
    if not found or (name is not None and name not in found):
        known = ", ".join(found) or "none"
        raise FedcastError(f"{runs}: there is no run {name or ''}; there are: {known}")
    return runs / (name or found[-1])
