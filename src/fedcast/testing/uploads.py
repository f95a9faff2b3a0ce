"""Checks of a kind of upload: functions of the name of a registered one, or of an `UploadKind`."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcast import registry
from fedcast.testing.common import attempt, check_declaration, unchanged
from fedcast.training import UploadKind

_USERS, _WEIGHTS, _GRID = 4, 1_300, 400


def declares_itself(kind: str | UploadKind) -> None:
    """It has a summary, options with defaults, and takes a whole number of bits, never more for fewer weights."""
    value = _kind(kind)
    options = value.options()
    check_declaration(value, options)
    bits = [value.bits(options, weights, 32) for weights in (1, 10, 1_000, 100_000)]
    assert all(isinstance(one, int) and one > 0 for one in bits), f"bits returns {bits}; expected whole numbers > 0"
    assert bits == sorted(bits), f"bits returns {bits} for 1, 10, 1,000 and 100,000 weights; expected no fewer for more"


def decodes_finite_changes(kind: str | UploadKind) -> None:
    """Check that decoded changes have shape and dtype of the changes, are finite, and 0 where all changes are 0."""
    for dtype in (torch.float32, torch.float64):
        changes = _changes().to(dtype)
        with unchanged(changes):
            found = _compressed(kind, changes)
        same = found.shape == changes.shape and found.dtype == dtype
        assert same, f"{tuple(found.shape)} {found.dtype} was decoded; expected {tuple(changes.shape)} {dtype}"
        assert bool(found.isfinite().all()), "what is decoded is not finite"
        assert not bool(_compressed(kind, torch.zeros_like(changes)).any()), "changes of 0 are decoded as others"


def keeps_users_apart(kind: str | UploadKind) -> None:
    """A user alone gets what it gets among others, so that both engines agree."""
    changes = _changes()
    together, alone = _compressed(kind, changes), [_compressed(kind, changes, user) for user in range(_USERS)]
    assert torch.equal(together, torch.cat(alone)), "what is decoded of a user depends on other users"


def loses_little(kind: str | UploadKind) -> None:
    """The mean over draws is the change (unbiased), or what is lost is smaller than the change (error feedback)."""
    value, changes = _kind(kind), _changes()[:1]
    if value.compress is None:
        return
    if not value.unbiased:
        lost = (changes - _compressed(kind, changes, 0)).norm()
        assert bool(lost < changes.norm()), f"an upload loses {lost:.3g} of {changes.norm():.3g}; expected less"
        return
    # The mean over an even grid of draws is exact to the size of a step over that of the grid.
    grid = (torch.arange(_GRID, dtype=torch.float64) + 0.5) / _GRID
    total = torch.zeros_like(changes)
    for draw in grid:
        total += value.compress(value.options(), changes, torch.full_like(changes, draw))
    gap = float((total / _GRID - changes).abs().max() / changes.abs().max())
    assert gap < 1 / _GRID, f"the mean over draws is off by {gap:.2g} of the largest change; expected an unbiased one"


CHECKS = (declares_itself, decodes_finite_changes, keeps_users_apart, loses_little)


def _kind(kind: str | UploadKind) -> UploadKind:
    if isinstance(kind, UploadKind):
        return kind
    found: UploadKind = registry.find("upload", kind).value
    return found


def _changes() -> Tensor:
    """Return changes of very different sizes, some of them 0."""
    drawn = torch.randn(_USERS, _WEIGHTS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn[:, ::7] = 0.0
    return drawn * torch.logspace(-6, 1, _WEIGHTS, dtype=torch.float64)


def _compressed(kind: str | UploadKind, changes: Tensor, user: int | None = None) -> Tensor:
    value = _kind(kind)
    draws = torch.rand(changes.shape, generator=torch.Generator().manual_seed(1)).to(changes)
    rows = slice(None) if user is None else slice(user, user + 1)
    if value.compress is None:
        return changes[rows]
    given = (value.options(), changes[rows], draws[rows] if value.draws else None)
    found, error = attempt("compress", "a tensor", value.compress, *given)
    assert not error, error
    assert isinstance(found, Tensor), f"compress returns a {type(found).__name__}; expected a tensor"
    return found
