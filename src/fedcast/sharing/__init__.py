"""Sharing: turn a clustering with its volumes into extra training data and a privacy ledger."""

from fedcast.sharing.ledger import SERVER, Ledger, Shared, Sharing, find_sharing
from fedcast.sharing.raw import draw_samples, share_samples, whole_water_fill

# Kinds of sharing that send nothing, with which a comparison shows what part of a gain is more work.
CONTROLS = {"work": "work_control", "epochs": "epochs_control"}

__all__ = [
    "CONTROLS",
    "SERVER",
    "Ledger",
    "Shared",
    "Sharing",
    "draw_samples",
    "find_sharing",
    "share_samples",
    "whole_water_fill",
]
