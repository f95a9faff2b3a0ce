"""Sharing: turn a clustering with its volumes into extra training data and a privacy ledger."""

from fedcast.sharing.ledger import SERVER, Ledger, Shared, Sharing, find_sharing
from fedcast.sharing.raw import draw_samples, share_samples, whole_water_fill

__all__ = ["SERVER", "Ledger", "Shared", "Sharing", "draw_samples", "find_sharing", "share_samples", "whole_water_fill"]
