"""Your own model: any torch.nn.Module whose state consists of weights (group norm instead of batch norm)."""

import torch
from torch import nn

import fedcast


class Residual(nn.Module):
    """A small residual network for images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Sequential(nn.GroupNorm(4, 12), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1))
        self.last = nn.Linear(12 * 4 * 4, 10)

    def forward(self, images):
        """Return the scores of the ten digits."""
        features = self.first(images)
        return self.last(nn.functional.max_pool2d(features + self.second(features), 2).flatten(1))


torch.manual_seed(0)  # for the initial weights; fedcast itself uses no global random state
model = Residual()
weights = sum(weight.numel() for weight in model.parameters())
scenario = fedcast.load_scenario(
    base="digits",
    # Delay, energy and bytes of every round follow from the number of weights.
    overrides=[f"training.model_weights={weights}", "training.learning_rate=0.05", "training.rounds=5"],
)


def show(record) -> None:
    """Print one round; called after every round."""
    print(f"round {record.round:2}: accuracy {record.accuracy:.3f}, {record.seconds:.1f} simulated seconds")


run = fedcast.train_scenario(scenario, model=model, progress=show)
print(f"{weights:,} weights, {len(run.ledger):,} samples received by other users")
