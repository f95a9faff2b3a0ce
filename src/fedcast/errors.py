"""Errors caused by invalid input; messages say how to fix it."""

from __future__ import annotations

from typing import Any


class FedcastError(Exception):
    """Invalid input; the message names the place, the value and what is expected instead."""


class ScenarioError(FedcastError):
    """An invalid scenario file or override; the message has one line per fault."""

    def __init__(self, message: str, scenario: Any = None) -> None:
        super().__init__(message)
        #: the `fedcast.scenario.Scenario`, if it is valid except for names that are not registered
        self.scenario = scenario


class MovedKeyWarning(FutureWarning):
    """A scenario uses the old name of a parameter that has moved."""


class DataError(FedcastError):
    """A dataset, partition or table that is missing, damaged or invalid."""


class OutsideFitError(FedcastError):
    """A skew or target accuracy outside the range that a fit of rounds covers."""


class NotReachableError(OutsideFitError):
    """A target accuracy that training is not expected to reach."""


class SweepError(FedcastError):
    """Some runs of a sweep failed; the message has one line for each. The other runs are finished."""

    def __init__(self, message: str, failed: Any = ()) -> None:
        super().__init__(message)
        #: the runs that failed, each a `fedcast.runs.FailedRun`
        self.failed = failed
