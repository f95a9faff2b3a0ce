"""The same plan on real devices: they describe themselves, heads send encrypted samples to members, all train.

`device` knows no engine: it holds what one device does and checks. Names are imported when first used, since they need
the extra ``federation`` or PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast._lazy import lazy_names

if TYPE_CHECKING:
    from fedcast.federation.device.device import Device
    from fedcast.federation.device.device_ledger import DeviceLedger
    from fedcast.federation.device.envelope import RejectedError
    from fedcast.federation.device.exchange import current_run, forget_received
    from fedcast.federation.device.keys import grouped, load_or_create_keys
    from fedcast.federation.device.samples import samples_of_arrays, write_samples
    from fedcast.federation.flare.jobs import (
        ServerStatus,
        check_idle,
        follow_job,
        run_to_end,
        server_status,
        stop_run,
        submit_job,
        wait_for_devices,
        wait_for_server,
    )
    from fedcast.federation.flare.kits import Project, device_name, load_project, make_project
    from fedcast.federation.flare.processes import start_process, stop_process
    from fedcast.federation.flare.start import start_device, start_server
    from fedcast.federation.flare.trial import fill_trial
    from fedcast.federation.loopback import Loopback
    from fedcast.federation.phases import FederationResult, FederationRun, Timeouts, Transport
    from fedcast.federation.planning import described_world
    from fedcast.federation.state import RunState, load_state, start_run

__all__ = [
    "Device",
    "DeviceLedger",
    "FederationResult",
    "FederationRun",
    "Loopback",
    "Project",
    "RejectedError",
    "RunState",
    "ServerStatus",
    "Timeouts",
    "Transport",
    "check_idle",
    "current_run",
    "described_world",
    "device_name",
    "fill_trial",
    "follow_job",
    "forget_received",
    "grouped",
    "load_or_create_keys",
    "load_project",
    "load_state",
    "make_project",
    "run_to_end",
    "samples_of_arrays",
    "server_status",
    "start_device",
    "start_process",
    "start_run",
    "start_server",
    "stop_process",
    "stop_run",
    "submit_job",
    "wait_for_devices",
    "wait_for_server",
    "write_samples",
]

__getattr__ = lazy_names(__name__, __file__)
