"""Names that both ends of a FLARE job use, without importing it."""

from __future__ import annotations

from typing import Any

CALL_TOPIC, PEER_TOPIC, MESSAGE = "fedcast.call", "fedcast.peer", "message"
DEVICE_FOLDER = "FEDCAST_DEVICE"  #: environment variable with the folder of the device
SERVER, ADMIN, ORGANISATION = "server", "admin@fedcast.local", "fedcast"
RUNS = "runs"  #: folder of the runs of a project
STOP_FILE = "stop"  #: in the folder of a run: its job is being ended, so that silence of devices means nothing

EXECUTOR = "fedcast.federation.flare.executor.DeviceExecutor"
CONTROLLER = "fedcast.federation.flare.controller.FederationController"
DEPLOYER = "fedcast.federation.flare.guard.StrictDeployer"
LAUNCHER = "fedcast.federation.flare.guard.GuardedLauncher"
JOB_MODULE = "fedcast.federation.flare.job_process"  #: what a device runs as the process of a job

#: What a device runs. A job may contain nothing else for it.
DEVICE_CONFIG: dict[str, Any] = {
    "format_version": 2,
    "executors": [{"tasks": ["*"], "executor": {"path": EXECUTOR, "args": {}}}],
    "task_result_filters": [],
    "task_data_filters": [],
    "components": [],
}
