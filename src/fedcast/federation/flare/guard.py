"""Limits of what a device accepts from a FLARE server: exactly the job of fedcast, and only the commands that it needs.

FLARE by itself lets whoever runs the server do more than a device of fedcast should. A client of FLARE 2.9 checks the
right to run ``cat`` and the like only if the request says that it should, deletes the folder of any job id that is
sent, and builds any class of a job that its policy allows. It also takes requests of any participant: one device could
ask another one to describe itself or to train, as if it were the server, or stop it. So a device starts with fewer
commands, checks ids, compares what is deployed with what it expects, and takes nothing of other devices but the
messages of fedcast.
"""

from __future__ import annotations

import io
import json
import logging
import re
import zipfile
from typing import Any

from nvflare.apis.app_deployer_spec import AppDeployerSpec
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.fuel.f3.cellnet.cell import Adapter
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    STREAM_ERROR_TOPIC,
    StreamHeaderKey,
)
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client import client_req_processors, scheduler_cmds, training_cmds
from nvflare.private.fed.client.admin import RequestProcessor
from nvflare.private.fed.utils.app_deployer import AppDeployer

from fedcast.federation.flare.names import DEVICE_CONFIG, JOB_MODULE, PEER_TOPIC

_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONFIG = "config/config_fed_client.json"
_SIGNATURES = {f"{folder}.__nvfl_{name}" for folder in ("", "config/") for name in ("sig.json", "submitter.crt")}
_MOST_BYTES = 2**16
_META_KEYS_OF_CODE = ("byoc", "launcher_spec", "flower_predeployed")

# Requests that a device takes of other devices. Large ones arrive as streams, whose own channel and topic are checked
# when they are complete.
_OF_DEVICES = {(CellChannel.AUX_COMMUNICATION, PEER_TOPIC)}
_STREAMS = {(STREAM_CHANNEL, topic) for topic in (STREAM_DATA_TOPIC, STREAM_ACK_TOPIC, STREAM_ERROR_TOPIC)}
_JOB_PROGRAM = "nvflare.private.fed.app.client.worker_process"

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


class GuardedLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """Starts the process of a job with the limits of this module; it is a component of every device."""

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        """Return the command of the process."""
        return str(super().get_command(job_meta, fl_ctx)).replace(_JOB_PROGRAM, JOB_MODULE, 1)


def is_allowed(origin: object, own: str, request: tuple[object, object], *, streamed: bool) -> bool:
    """Return whether a device takes a request of a channel and topic: all of the server and of its own processes.

    A server that is honest lets nobody send under the name of another one, and so the origin can be relied on.
    """
    sender = FQCN.split(origin)[0] if isinstance(origin, str) and origin else ""
    if sender in (FQCN.ROOT_SERVER, FQCN.split(own)[0]):
        return True
    return request in _OF_DEVICES or (not streamed and request in _STREAMS)


def limit_origins() -> None:
    """Take no requests of other devices but the messages of fedcast, in this process, before its cell is made."""
    process, call, log = CoreCell._process_request, Adapter.call, logging.getLogger(__name__)

    def guarded_process(self: CoreCell, origin: str, message: Any) -> Any:
        request = message.get_header(MessageHeaderKey.CHANNEL), message.get_header(MessageHeaderKey.TOPIC)
        if is_allowed(origin, self.my_info.fqcn, request, streamed=False):
            return process(self, origin, message)
        log.warning("refused a request of %r: %r", origin, request)
        return make_reply(ReturnCode.UNAUTHENTICATED, "devices take requests of the server alone")

    def guarded_call(self: Adapter, future: Any, *arguments: Any, **options: Any) -> None:
        headers = future.headers
        origin, request = headers.get(MessageHeaderKey.ORIGIN), (
            headers.get(StreamHeaderKey.CHANNEL), headers.get(StreamHeaderKey.TOPIC),
        )  # fmt: skip
        if is_allowed(origin, self.my_info.fqcn, request, streamed=True):
            call(self, future, *arguments, **options)
        else:
            log.warning("refused a request of %r: %r", origin, request)

    CoreCell._process_request, Adapter.call = guarded_process, guarded_call


def limit_commands() -> None:
    """Take all commands from the FLARE client of this process that a run does not need."""
    processors = client_req_processors.ClientRequestProcessors.request_processors
    processors[:] = [_Checked(each) for each in processors if isinstance(each, _NEEDED)]
