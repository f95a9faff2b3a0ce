"""Rounds to a target accuracy as a function of skew and local work: forms, fitting, shipped fits and predictions."""

from fedcast.rounds.domain import FitDomain, dataset_digest, task_values
from fedcast.rounds.fit_files import RoundsFit, fit_of, load_fit, load_rounds, save_fit, shipped_fits
from fedcast.rounds.fitting import SKEW_FORMS, fit_accuracy, fit_rounds, nmse
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.law import Conditions, RoundsLaw, fit_law, local_steps
from fedcast.rounds.model import AccuracyFit, BetaSet, ExpectedRounds, MeasureName, RoundsModel
from fedcast.rounds.notes import fit_differences, fit_notes, rounds_assumptions
from fedcast.rounds.worth import Worth, signal_of
from fedcast.rounds.worth_fitting import LEAST_RUNS, GeneratedRun, fit_worth

__all__ = [
    "FORMS",
    "LEAST_RUNS",
    "SKEW_FORMS",
    "AccuracyFit",
    "BetaSet",
    "Conditions",
    "ExpectedRounds",
    "FitDomain",
    "FormName",
    "GeneratedRun",
    "MeasureName",
    "RoundsFit",
    "RoundsLaw",
    "RoundsModel",
    "Worth",
    "dataset_digest",
    "fit_accuracy",
    "fit_differences",
    "fit_law",
    "fit_notes",
    "fit_of",
    "fit_rounds",
    "fit_worth",
    "load_fit",
    "load_rounds",
    "local_steps",
    "nmse",
    "rounds_assumptions",
    "save_fit",
    "shipped_fits",
    "signal_of",
    "task_values",
]
