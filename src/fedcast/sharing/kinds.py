"""Define kinds of sharing: the value that `fedcast.registry` holds under its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedcast import registry
from fedcast.clustering import Clustering
from fedcast.data import Population
from fedcast.sharing.ledger import Shared


@dataclass(frozen=True)
class Sharing:
    """A kind of sharing.

    Attributes:
        share: returns the data after sharing from (population, clustering, seed, options); the same arguments always
            give the same result. `fedcast.testing.sharing` checks one.
        summary: one line that says what is sent.
        options: frozen dataclass of its options, see `fedcast.registry.option`.
    """

    share: Callable[[Population, Clustering, int, Any], Shared]
    summary: str
    options: type[Any] = registry.NoOptions


def find_sharing(name: str) -> Sharing:
    """Return the kind of sharing of that name.

    Example:
        >>> find_sharing("raw").summary
        'heads send raw samples to their members'
    """
    kind: Sharing = registry.find("sharing", name).value
    return kind
