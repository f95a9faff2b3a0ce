"""Writing figures: PNG, SVG or PDF by the file's suffix, written aside and then renamed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.errors import FedcastError
from fedcast.io import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# So that the same figure has the same bytes.
_WITHOUT_DATE: dict[str, dict[str, str | None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
BLUE = "#2b6cb0"
ORANGE = "#d9772b"


def check_figure_path(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path.suffix.lower() not in FORMATS:
        raise FedcastError(f"{path}: unknown kind of picture {path.suffix!r}; expected {', '.join(FORMATS)}")
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")


def save_figure(figure: Figure, path: str | Path, dpi: int = 160) -> Path:
    """Write a figure; folders are made, a half-written file never stays."""
    path = Path(path)
    check_figure_path(path)
    from matplotlib import rc_context

    suffix = path.suffix.lower()
    with atomic_write(path) as aside, rc_context({"svg.hashsalt": "fedcast"}), warnings.catch_warnings():
        # A name in a script that the font lacks shows as boxes; a warning for each of its letters helps nobody.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(
            aside,
            format=suffix[1:],
            dpi=dpi,
            bbox_inches="tight",
            facecolor="white",
            metadata=_WITHOUT_DATE.get(suffix),
        )
    return path
