"""The errors a person can cause, each with a message they can act on."""

from __future__ import annotations


class FedcastError(Exception):
    """Something in the input is wrong; the message says what, where and what would do instead."""


class ScenarioError(FedcastError):
    """A scenario file or override that cannot be accepted; one line per fault."""


class DataError(FedcastError):
    """A dataset, partition or table that is missing, damaged or impossible."""


class OutsideFitError(FedcastError):
    """A skew or a target accuracy that a fit of rounds says nothing about."""
