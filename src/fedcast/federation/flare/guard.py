"""Limits of what a device accepts from a FLARE server: exactly the job of fedcast, and only the commands that it needs.

FLARE by itself lets whoever runs the server do more than a device of fedcast should. A client of FLARE 2.9 checks the
right to run ``cat`` and the like only if the request says that it should, deletes the folder of any job id that is
sent, and builds any class of a job that its policy allows. So a device starts with fewer commands, checks ids, and
compares what is deployed with what it expects.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

from nvflare.apis.app_deployer_spec import AppDeployerSpec
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client import client_req_processors, scheduler_cmds, training_cmds
from nvflare.private.fed.client.admin import RequestProcessor
from nvflare.private.fed.utils.app_deployer import AppDeployer

from fedcast.federation.flare.names import DEVICE_CONFIG

_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONFIG = "config/config_fed_client.json"
_SIGNATURES = {f"{folder}.__nvfl_{name}" for folder in ("", "config/") for name in ("sig.json", "submitter.crt")}
_MOST_BYTES = 2**16
_META_KEYS_OF_CODE = ("byoc", "launcher_spec", "flower_predeployed")

# Commands that a run needs; not among them: shell commands, deletion of folders, reports of the environment, log files.
_NEEDED = (
    training_cmds.AbortAppProcessor,
    training_cmds.AbortTaskProcessor,
    training_cmds.ClientStatusProcessor,
    training_cmds.DeployProcessor,
    training_cmds.NotifyJobStatusProcessor,
    training_cmds.ScopeInfoProcessor,
    training_cmds.ShutdownClientProcessor,
    scheduler_cmds.CancelResourceProcessor,
    scheduler_cmds.CheckResourceProcessor,
    scheduler_cmds.StartJobProcessor,
)


class StrictDeployer(AppDeployerSpec, FLComponent):  # type: ignore[misc]
    """Deploys the job of fedcast and nothing else; it is a component of every device."""

    def __init__(self) -> None:
        FLComponent.__init__(self)

    def deploy(
        self, workspace: Workspace, job_id: str, job_meta: dict[str, Any], app_name: str, app_data: bytes,
        fl_ctx: FLContext,
    ) -> str:  # fmt: skip
        """Return why an app is refused; an empty text if it was deployed."""
        fault = fault_of_app(job_id, job_meta, app_data)
        if fault:
            self.log_warning(fl_ctx, f"refused to deploy {app_name!r}: {fault}")
            return fault
        return str(AppDeployer().deploy(workspace, job_id, job_meta, app_name, app_data, fl_ctx) or "")


def fault_of_app(job_id: object, job_meta: dict[str, Any], app_data: bytes) -> str:
    """Return what is wrong with an app that a server sends; an empty text if it is the one of fedcast."""
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        return "invalid job id"
    if carried := [key for key in _META_KEYS_OF_CODE if job_meta.get(key)]:
        return f"the job asks for code of its own ({', '.join(carried)}); devices run installed code only"
    try:
        with zipfile.ZipFile(io.BytesIO(app_data)) as archive:
            files = [entry for entry in archive.infolist() if not entry.is_dir()]
            entries = [entry for entry in files if entry.filename not in _SIGNATURES]
            names = [entry.filename for entry in entries]
            if names != [_CONFIG] or entries[0].file_size > _MOST_BYTES:
                return f"the app has the files {names}; devices run installed code only, and take {_CONFIG} alone"
            config = json.loads(archive.read(entries[0]))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError):
        return "the app cannot be read"
    return "" if config == DEVICE_CONFIG else "the configuration of the app is not that of fedcast"


class _Checked(RequestProcessor):  # type: ignore[misc]
    """A command whose job id is checked, since FLARE makes paths of it."""

    def __init__(self, inner: RequestProcessor) -> None:
        self.inner = inner

    def get_topics(self) -> list[str]:
        """Return the topics of the command."""
        return list(self.inner.get_topics())

    def process(self, req: Message, app_ctx: Any) -> Message:
        """Refuse anything that is not the id of a job."""
        job_id = req.get_header(RequestHeader.JOB_ID)
        if job_id is not None and not _JOB_ID.fullmatch(str(job_id)):
            return error_reply("invalid job id")
        return self.inner.process(req, app_ctx)


def limit_commands() -> None:
    """Take all commands from the FLARE client of this process that a run does not need."""
    processors = client_req_processors.ClientRequestProcessors.request_processors
    processors[:] = [_Checked(each) for each in processors if isinstance(each, _NEEDED)]
