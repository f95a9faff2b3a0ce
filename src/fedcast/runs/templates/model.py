"""The model of the run, as torch.export saved it."""

from pathlib import Path

import torch


def build(folder):
    """Return the model."""
    return torch.export.load(Path(folder) / "model.pt2").module()
