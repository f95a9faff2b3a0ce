"""What a run costs on the simulated clock."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.typing import Ints


@dataclass(frozen=True)
class Clock:
    """What sharing and each round cost, for the simulated clock; zeros if nobody asked.

    Attributes:
        sharing_s: delay before the first round.
        round_s: delay of a round of all users.
        sharing_j: energy of sharing, all users.
        round_j: energy of a round of all users.
        sharing_bytes: bytes sent while sharing.
        round_bytes: bytes sent in a round of all users, both ways.
        user_s: how long each user takes in a round, K values; a round of some of them waits for the slowest. Empty:
            a round costs the same whoever takes part.
        user_j: energy of each user in a round, K values.
        upload_bytes: bytes that one user uploads.
    """

    sharing_s: float = 0.0
    round_s: float = 0.0
    sharing_j: float = 0.0
    round_j: float = 0.0
    sharing_bytes: float = 0.0
    round_bytes: float = 0.0
    user_s: tuple[float, ...] = ()
    user_j: tuple[float, ...] = ()
    upload_bytes: float = 0.0

    def cost_of(self, users: Ints, everyone: int) -> tuple[float, float, float]:
        """Delay, energy and bytes of a round of these users, of so many that could take part."""
        if not self.user_s or len(users) == everyone:
            return self.round_s, self.round_j, self.round_bytes
        slowest = max((self.user_s[user] for user in users), default=0.0)
        missing = self.upload_bytes * (everyone - len(users))
        return slowest, sum(self.user_j[user] for user in users), self.round_bytes - missing
