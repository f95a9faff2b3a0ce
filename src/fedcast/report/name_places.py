"""Places for names beside points, so that no name covers another one or a point."""

from __future__ import annotations

import numpy as np

from fedcast.typing import Floats

# Sides of a point, the best first: which way the name lies from it, and the part of the name that is nearest.
_SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)], dtype=np.float64)
# Cost of a later side, of a line below the name, and of a name further away; and how far that is.
_LATER, _CROSSED, _FAR = 0.1, 1.0, 4.0
_FURTHER = 9.0


def place_names(points: Floats, radii: Floats, sizes: Floats, frame: tuple[float, ...], lines: Floats) -> Floats:
    """Return the boxes (left, top, width, height) of names, float64[N, 4]; NaN: there is no room.

    Names are placed one after another on the side with the fewest lines below; further away where nothing else is free.

    Args:
        points: float64[N, 2], middles of the points.
        radii: float64[N], of the points.
        sizes: float64[N, 2], width and height of the names.
        frame: left, top, right and bottom that names stay within.
        lines: float64[L, 4], both ends of lines.

    Example:
        >>> two = np.array([[50.0, 50.0], [60.0, 50.0]])
        >>> place_names(two, np.full(2, 2.0), np.full((2, 2), [30.0, 8.0]), (0, 0, 100, 100), np.zeros((0, 4))).tolist()
        [[18.0, 46.0, 30.0, 8.0], [62.0, 46.0, 30.0, 8.0]]
    """
    boxes = np.full((len(points), 4), np.nan)
    taken = np.column_stack([points - radii[:, None], points + radii[:, None]])
    for place, (point, radius, size) in enumerate(zip(points, radii, sizes, strict=True)):
        near = np.where(np.abs(_SIDES).sum(axis=1, keepdims=True) > 1, 0.7, 1.0) * radius
        middle = point + np.concatenate([_SIDES * (near + size / 2), _SIDES * (near + _FURTHER + size / 2)])
        corners = np.concatenate([middle - size / 2, middle + size / 2], axis=1)
        others = np.concatenate([np.delete(taken[: len(points)], place, axis=0), taken[len(points) :]])
        free = ~_overlap(corners, others).any(axis=1)
        free &= (corners[:, :2] >= frame[:2]).all(axis=1) & (corners[:, 2:] <= frame[2:]).all(axis=1)
        if not free.any():
            continue
        cost = _LATER * np.tile(np.arange(len(_SIDES)), 2) + _CROSSED * _crossings(corners, lines)
        cost[len(_SIDES) :] += _FAR
        best = int(np.where(free, cost, np.inf).argmin())
        boxes[place] = *corners[best, :2], *size
        taken = np.concatenate([taken, corners[best : best + 1]])
    return boxes


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Return which boxes (left, top, right, bottom), [B, 4], overlap which others, bool[B, O]."""
    one, other = boxes[:, None], others[None]
    return np.asarray((one[..., :2] < other[..., 2:]).all(axis=-1) & (one[..., 2:] > other[..., :2]).all(axis=-1))


def _crossings(boxes: Floats, lines: Floats) -> Floats:
    """Return how many lines cross each box, float64[B]: by clipping each line to the box (Liang and Barsky)."""
    start, run = lines[None, :, :2], lines[None, :, 2:] - lines[None, :, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(boxes[:, None, :2] - start) / run, (boxes[:, None, 2:] - start) / run])
    # A line that is parallel to a side is inside for its whole length, or never.
    ends = np.where(np.isnan(ends), 0.0, ends)
    enter, leave = ends.min(axis=0).max(axis=-1), ends.max(axis=0).min(axis=-1)
    return np.asarray((np.maximum(enter, 0) < np.minimum(leave, 1)).sum(axis=1), dtype=np.float64)
