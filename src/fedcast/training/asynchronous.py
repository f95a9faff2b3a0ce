r"""Asynchronous training, FedBuff (Nguyen et al. 2022, Algorithm 1).

The server steps with every K updates that arrive, :math:`w \leftarrow w + \eta \sum_i s(\tau_i) p_i \Delta_i / \sum_i
p_i`, where update i started :math:`\tau_i` steps ago and :math:`s(\tau) = (1 + \tau)^{-1/2}`. With
``training.aggregation = "uniform"`` this is the paper's mean, :math:`\sum_i s(\tau_i) \Delta_i / K`.

Who arrives when is known before training (`fedcast.participation.buffered_steps`). Users therefore train when their
update is used, from weights that are kept as long as somebody in flight started from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import numpy as np
import torch

from fedcast.participation import Attendance, BufferedStep, buffered_steps
from fedcast.training.checkpoint import TrainingState
from fedcast.training.engines import Round
from fedcast.training.engines.engine_protocol import Aggregate
from fedcast.training.trainer import Trainer

# The batches of a user that starts again from the same weights are those of a round that is never reached.
_REPEAT = 2**40


class BufferedTrainer(Trainer):
    """A run whose rounds are steps of the server, each with the updates of a full buffer."""

    _taken = 0

    @cached_property
    def steps(self) -> Iterator[BufferedStep]:
        """The steps that `taken` has not counted."""
        return buffered_steps(self.able, self.attendance, self.dropped, self.user_s, seed=self.seed)

    def step(self, number: int) -> BufferedStep:
        """Return step `number`, counted from 1; a resumed run goes through the steps before, which cost no training."""
        found = next(islice(self.steps, number - 1 - self._taken, None))
        self._taken = number
        return found

    def advance(self, number: int, state: TrainingState) -> tuple[Attendance, float | None, float | None]:
        """Train the users whose updates arrive, and take one step; there is no drift between different weights."""
        present = self.step(number)
        version, before = number - 1, state.weights
        state.past[str(version)] = before
        loss = self._step(number, present, state) if self.user_weights[present.users].any() else None
        kept = {str(version) for version in present.in_flight}
        state.past = {name: weights for name, weights in state.past.items() if name in kept}
        return present, loss, None

    def _step(self, number: int, present: BufferedStep, state: TrainingState) -> float:
        """Add up the updates of a buffer, group by group of users that started from the same weights."""
        assert present.staleness is not None
        total, sum_of_weights = Aggregate(state.weights), self.user_weights[present.users].sum()
        for version, repeat in sorted(set(zip(present.versions.tolist(), present.repeats.tolist(), strict=True))):
            group = np.sort(present.users[(present.versions == version) & (present.repeats == repeat)])
            weight = self.attendance.staleness_weight(np.array(number - 1 - version))
            draws = version + 1 + repeat * _REPEAT
            self._seed_model(draws)
            current = Round(draws, state.past[str(version)], self.settings.rate_in(version + 1), {}, {})
            for block in self.engine.local_training(group, current):
                self._check(number, block)
                block = self._uploaded(block, draws, state.residuals)
                shares = weight * self.user_weights[block.users] / sum_of_weights
                total.add(block, torch.from_numpy(shares).to(self.device))
        self._server_step(state, total)
        self._check_weights(number, state)
        return float(total.loss) / total.steps
