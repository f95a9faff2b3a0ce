"""Sharing: turn a clustering with its volumes into extra training data and a privacy ledger."""

from fedcast.sharing.attack import Games, RecordedNoise, Scores, Target, calibrated, joined, play
from fedcast.sharing.by_head import share_by_head
from fedcast.sharing.gaussian_noise import SIGMA_STEPS, Noise, happens_exp, secure_noise, seeded_noise
from fedcast.sharing.generate import PrivacyOptions, check_samples, generating
from fedcast.sharing.ledger import SERVER, Held, Ledger, Made, Privacy, Request, Shared, Sharing, find_sharing
from fedcast.sharing.privacy import (
    DEFAULT_DELTA,
    Release,
    check_budget,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    pure_mu,
    total_epsilon,
    total_mu,
)
from fedcast.sharing.raw import draw_samples, make_raw, share_samples, whole_water_fill

# Kinds of sharing that send nothing, with which a comparison shows what part of a gain is more work.
CONTROLS = {"work": "work_control", "epochs": "epochs_control"}

__all__ = [
    "CONTROLS",
    "DEFAULT_DELTA",
    "SERVER",
    "SIGMA_STEPS",
    "Games",
    "Held",
    "Ledger",
    "Made",
    "Noise",
    "Privacy",
    "PrivacyOptions",
    "RecordedNoise",
    "Release",
    "Request",
    "Scores",
    "Shared",
    "Sharing",
    "Target",
    "calibrated",
    "check_budget",
    "check_samples",
    "draw_samples",
    "find_sharing",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "generating",
    "happens_exp",
    "joined",
    "make_raw",
    "play",
    "pure_mu",
    "secure_noise",
    "seeded_noise",
    "share_by_head",
    "share_samples",
    "total_epsilon",
    "total_mu",
    "whole_water_fill",
]
