"""The commands `fedcast federation …`: a federation on real devices, or as a trial on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import INTERRUPTED
from fedcast.cli.arguments import DataDir, Overrides, Preset, ScenarioFile, read_scenario
from fedcast.cli.federation_text import RunProgress, print_run, where_it_is
from fedcast.cli.output import plain_table, screen
from fedcast.errors import FedcastError
from fedcast.formatting import pluralize

if TYPE_CHECKING:
    from fedcast.federation import DeviceLedger, Project

federation = typer.Typer(name="federation", no_args_is_help=True, help="Run a plan on real devices.")

_ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
_DeviceFolder = Annotated[Path, typer.Argument(metavar="DEVICE", help="Folder of the device: PROJECT/devices/NAME.")]
_DescribeTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a device has to load and describe.")]
_ShareTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a head has to share.")]
_RoundTimeout = Annotated[float, typer.Option(min=1, help="Seconds that a device has for a round.")]
_Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for devices that are not connected.")]


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
    wait: _Wait = 30.0,
) -> None:
    """Describe, plan, share and train over the devices that are connected."""
    from fedcast.federation import check_idle, load_project, start_run, wait_for_server

    made = load_project(project)
    scenario = read_scenario(path, preset, overrides, usual="digits")
    check_idle(wait_for_server(made, wait), made)
    folder = made.folder / "runs" / time.strftime("%Y%m%d-%H%M%S")
    start_run(folder, scenario)
    _follow(made, folder, wait, (describe_timeout, share_timeout, round_timeout))


@federation.command()
def resume(
    project: _ProjectFolder,
    name: Annotated[str | None, typer.Argument(metavar="RUN", help="Name of the run; default: the last.")] = None,
    describe_timeout: _DescribeTimeout = 60.0,
    share_timeout: _ShareTimeout = 600.0,
    round_timeout: _RoundTimeout = 600.0,
    wait: _Wait = 30.0,
) -> None:
    """Resume a run in the phase, or after the round, in which it ended; follow it if it goes on."""
    from fedcast.federation import check_idle, load_project, load_state, wait_for_server

    made = load_project(project)
    folder = _run_folder(made, name)
    if load_state(folder).phase != "done":
        check_idle(wait_for_server(made, wait), made, folder.name)
    _follow(made, folder, wait, (describe_timeout, share_timeout, round_timeout))


@federation.command()
def stop(
    project: _ProjectFolder,
    name: Annotated[str | None, typer.Argument(metavar="RUN", help="Name of the run; default: any.")] = None,
) -> None:
    """Stop a run on all devices; `resume` continues it."""
    from fedcast.federation import load_project, server_status

    made = load_project(project)
    running = server_status(made).runs
    if name is None:
        name = next(iter(running), None)
    if name is None or name not in running:
        typer.echo("no run goes on" if name is None else f"run {name} does not go on")
        return
    _stop(made, name)


@federation.command()
def status(
    project: _ProjectFolder,
    name: Annotated[str | None, typer.Argument(metavar="RUN", help="Name of the run; default: the last.")] = None,
) -> None:
    """Print who is there, and the phase, rounds and bytes of a run."""
    from fedcast.federation import load_project, load_state, server_status

    made, console, running = load_project(project), screen(), dict[str, str]()
    try:
        found, running = server_status(made, timeout_s=3.0)
        console.print(f"server {made.host}:{made.port}, {len(found)} of {len(made.devices)} devices are connected")
        if missing := [each for each in made.devices if each not in found]:
            console.print(f"not connected: {', '.join(missing)}", soft_wrap=True)
    except FedcastError:
        console.print(f"server {made.host}:{made.port} does not answer")
    if name is None and not (made.folder / "runs").is_dir():
        console.print("no runs yet")
        return
    going_on = next((run for run in running if (made.folder / "runs" / run).is_dir()), None)
    folder = _run_folder(made, name or going_on)
    state = load_state(folder)
    ended = state.phase == "done" or folder.name in running
    print_run(folder.name, state, "" if ended else f"it does not go on; {_how_to_resume(made, folder.name)}")


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

    The ledger stays: it counts what was sent against the consent, and recognises replays. A run that goes on trains
    without them from its next round on.
    """
    from fedcast.federation import current_run, forget_received

    found = _ledger_of(device)
    held = found.runs_with_samples()
    if name is not None and name not in held:
        known = ", ".join(held) or "none"
        raise FedcastError(f"no samples of run {name!r} are stored here; runs with samples: {known}")
    deleted = forget_received(device / "device", found, name)
    found.close()
    typer.echo(f"deleted {pluralize(deleted, 'sample')} of {pluralize(1 if name else len(held), 'run')}")
    now = current_run(device / "device")
    if now in held and name in (None, now):
        typer.echo(
            f"fedcast: warning: the device takes part in run {now} now: from the next round on it trains without these "
            "samples, which its head does not send again",
            err=True,
        )


def _ledger_of(device: Path) -> DeviceLedger:
    from fedcast.federation import DeviceLedger

    path = device / "device" / "ledger.sqlite"
    if not path.exists():
        raise FedcastError(f"{path}: no such file; the device has not been started yet")
    return DeviceLedger(path)


def _follow(project: Project, folder: Path, wait: float, timeouts_s: tuple[float, float, float]) -> None:
    from fedcast.federation import load_state, run_to_end

    timeouts = dict(zip(("describe_s", "share_s", "round_s"), timeouts_s, strict=True))
    try:
        with RunProgress(folder, load_state(folder)) as progress:
            state = run_to_end(project, folder, timeouts, wait, progress.show)
    except KeyboardInterrupt:
        left = "press Ctrl-C again to leave it to the server, where `fedcast federation stop` ends it"
        typer.echo(f"stopping the run; {left}", err=True)
        _stop(project, folder.name)
        raise typer.Exit(INTERRUPTED) from None
    if state.failure is not None:
        raise FedcastError(f"{state.failure}\n{_how_to_resume(project, folder.name)}")
    print_run(folder.name, state)
    typer.echo(f"results are in {folder}; a page of them: fedcast report {folder}")


def _stop(project: Project, name: str) -> None:
    from fedcast.federation import load_state, stop_run

    stop_run(project, name)
    state = load_state(project.folder / "runs" / name)
    typer.echo(f"run {name} was stopped ({where_it_is(state)}); {_how_to_resume(project, name)}")


def _how_to_resume(project: Project, name: str) -> str:
    return f"resume it with: fedcast federation resume {project.folder} {name}"


def _run_folder(project: Project, name: str | None) -> Path:
    runs = project.folder / "runs"
    found = sorted(folder.name for folder in runs.iterdir()) if runs.is_dir() else []
    if not found:
        raise FedcastError(f"{runs}: no runs yet; start one: fedcast federation run {project.folder}")
    if name is not None and name not in found:
        raise FedcastError(f"{runs}: there is no run {name}; there are: {', '.join(found)}")
    return runs / (name or found[-1])
