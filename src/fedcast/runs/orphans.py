"""End a worker process together with its parent."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process


def end_with_parent() -> None:
    """Make this process end within moments after its parent has ended, also if the parent was killed.

    Nobody would use its results, and it would wait for another run forever.
    """
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    assert parent is not None, "only a process that multiprocessing started has a parent"
    parent.join()
    os._exit(1)
