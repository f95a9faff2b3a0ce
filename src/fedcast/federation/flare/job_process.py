"""The process of a job on a device: that of FLARE, with the limits of `guard`."""

from __future__ import annotations

import runpy

from fedcast.federation.flare.guard import limit_origins

if __name__ == "__main__":
    limit_origins()
    runpy.run_module("nvflare.private.fed.app.client.worker_process", run_name="__main__", alter_sys=True)
