"""FLARE controller, which runs on the server: the phases of a run, over devices that FLARE reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal

from fedcast.errors import FedcastError
from fedcast.federation.device.exchange import Messages
from fedcast.federation.flare.executor import packed, replies_of
from fedcast.federation.flare.names import CALL_TOPIC, STOP_FILE
from fedcast.federation.phases import FederationRun, Timeouts
from fedcast.federation.state import record_failure

# A message to a device whose part of the job has not started is lost, so that it is sent again after a while.
_TRY_S, _RETRY_S = 2.0, 0.1


class FederationController(Controller):  # type: ignore[misc]
    """Runs or resumes the run whose folder a job names."""

    def __init__(self, folder: str, devices: list[str], timeouts: dict[str, float] | None = None) -> None:
        super().__init__()
        self.folder, self.devices, self.timeouts = folder, devices, Timeouts(**(timeouts or {}))

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing."""

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """Ignore it: there are no tasks."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run all phases that are not done."""
        stop_file = Path(self.folder) / STOP_FILE
        stop_file.unlink(missing_ok=True)
        # FLARE ends the job on devices first, and here some seconds later.
        transport = FlareTransport(fl_ctx, lambda: bool(abort_signal.triggered) or stop_file.exists())
        try:
            run = FederationRun(
                self.folder,
                transport,
                timeouts=self.timeouts,
                expected=self.devices,
                report=lambda line: self.log_info(fl_ctx, line),
                should_stop=transport.ended,
            )
            run.run()
        except _AbortedError:  # by the operator; a later job resumes
            self.log_info(fl_ctx, "the job was ended")
        except (FedcastError, OSError) as error:
            self._fail(str(error), fl_ctx)
        except Exception as error:  # otherwise nobody but the log of the server would know
            self.log_exception(fl_ctx, "the run failed")
            self._fail(f"{type(error).__name__}: {error}", fl_ctx)

    def _fail(self, reason: str, fl_ctx: FLContext) -> None:
        record_failure(self.folder, reason)
        self.system_panic(reason, fl_ctx)


class _AbortedError(FedcastError):
    """The job was ended while devices were asked, so that their silence means nothing."""


class FlareTransport:
    """Calls devices by messages, all at once."""

    def __init__(self, fl_ctx: FLContext, ended: Callable[[], bool]) -> None:
        self.engine, self.ended = fl_ctx.get_engine(), ended

    def names(self) -> list[str]:
        """Return the devices of the job, by name."""
        return sorted(client.name for client in self.engine.get_clients())

    def ask(self, call: str, requests: Messages, timeout_s: float) -> Messages:
        """Call a method of each named device, each in a thread: FLARE's multicast of different messages is broken."""
        if not requests:
            return {}
        asked = list(requests)
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = list(pool.map(lambda name: self._ask(name, call, requests[name], timeout_s), asked))
        if self.ended():
            raise _AbortedError("the job was ended")
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer is not None}

    def _ask(self, name: str, call: str, request: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any] | None:
        """Return the answer of one device, or None; one whose part of the job has not started is asked again."""
        end = time.monotonic() + timeout_s
        message = packed({"call": call, "request": request})
        while (left := end - time.monotonic()) > 0 and not self.ended():
            wait = min(left, _TRY_S) if call == "alive" else left
            with self.engine.new_context() as context:
                replies = self.engine.send_aux_request([name], CALL_TOPIC, message, wait, context, optional=True)
            if (found := replies_of(replies).get(name)) is not None or call != "alive":
                return found
            time.sleep(_RETRY_S)
        return None
