"""Start the process of a server or a device: ``python -m fedcast.federation.flare.start device FOLDER``."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

from fedcast.federation.flare.kits import check_device_kit, device_name
from fedcast.federation.flare.names import DEVICE_FOLDER, ORGANISATION
from fedcast.federation.flare.processes import end_processes

_APPS = "nvflare.private.fed.app"
# Small devices: the allocator keeps less memory for each thread. And the process of a job must not import what lies in
# the folder in which a device was started.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "4", "PYTHONSAFEPATH": "1"}
_OTHERS = 0o077  # rights of other users of the machine


def start_device(folder: Path) -> None:
    """Run the client of a device until it is stopped; it takes no more of FLARE's commands than a run needs."""
    folder = folder.resolve()
    check_device_kit(folder / "flare")
    os.environ[DEVICE_FOLDER] = str(folder / "device")
    from fedcast.federation.device.device import Device
    from fedcast.federation.flare.guard import limit_commands, limit_origins

    os.umask(_OTHERS)
    name = device_name(folder)
    Device(name, folder / "device").ledger.close()  # errors in the owner's files are found now, not in a run
    limit_commands()
    limit_origins()
    _run("client.client_train", folder / "flare", "fed_client.json", f"uid={name}")


def start_server(kit: Path) -> None:
    """Run the server until it is stopped."""
    os.umask(_OTHERS)
    _run("server.server_train", kit.resolve(), "fed_server.json")


def _run(module: str, kit: Path, config: str, *more: str) -> None:
    settings = ["secure_train=true", f"org={ORGANISATION}", "config_folder=config", *more]
    sys.argv = [module, "-m", str(kit), "-s", config, "--set", *settings]
    os.environ.update({key: os.environ.get(key, value) for key, value in _ENVIRONMENT.items()})
    # Job processes are started by the name of the interpreter.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    runpy.run_module(f"{_APPS}.{module}", run_name="__main__", alter_sys=True)


def _stop(number: int, _: FrameType | None) -> None:
    """End the processes of jobs and this one at once: threads of FLARE would keep it alive after Ctrl-C."""
    import psutil

    end_processes(psutil.Process().children(recursive=True))
    os._exit(128 + number)


if __name__ == "__main__":
    {"device": start_device, "server": start_server}[sys.argv[1]](Path(sys.argv[2]))
