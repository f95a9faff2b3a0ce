"""Exit codes of the command line."""

from __future__ import annotations

USER_ERROR, BUG, INTERRUPTED = 2, 1, 130
