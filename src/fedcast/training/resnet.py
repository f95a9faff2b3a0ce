"""ResNet-18 for small images, with group norm; users of its residual blocks can be stacked."""

from __future__ import annotations

from torch import Tensor, nn

from fedcast.training.models import RESNET_STAGES

_NORM_GROUPS = 32


class Residual(nn.Module):
    """Two ways through a block, added: ReLU(body(x) + shortcut(x)); an empty shortcut is x itself."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the sum of both ways after a ReLU."""
        added: Tensor = self.body(hidden) + self.shortcut(hidden)
        return added.relu()


def resnet18(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return the network of He et al. (2016) with a first convolution of 3×3 and stride 1, as usual for CIFAR."""
    layers: list[nn.Module] = [*_convolution(channels, 64, 3, 1), nn.ReLU()]
    inputs = 64
    for outputs, stride in RESNET_STAGES:
        layers += [_block(inputs, outputs, stride), _block(outputs, outputs, 1)]
        inputs = outputs
    pooled = nn.AvgPool2d((-(-height // 8), -(-width // 8)))
    return nn.Sequential(*layers, pooled, nn.Flatten(), nn.Linear(inputs, num_classes))


def _block(inputs: int, outputs: int, stride: int) -> Residual:
    body = nn.Sequential(
        *_convolution(inputs, outputs, 3, stride), nn.ReLU(), *_convolution(outputs, outputs, 3, 1)
    )  # fmt: skip
    return Residual(body, nn.Sequential(*(_convolution(inputs, outputs, 1, stride) if stride > 1 else [])))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> list[nn.Module]:
    """Return a convolution without bias and the norm that follows it."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, nn.GroupNorm(_NORM_GROUPS, outputs)]
