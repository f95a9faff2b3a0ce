"""An LSTM that can be stacked over users, with a backward pass of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


class LSTM(nn.Module):
    """An LSTM of plain tensor operations: the same numbers as `torch.nn.LSTM`, but it can be stacked over users.

    ``torch.func.vmap`` has no rule for `nn.LSTM`. Parameters have the names, shapes and order of gates of `nn.LSTM`
    (input, forget, cell, output), so that weights can be exchanged.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        for name, parameter in nn.LSTM(input_size, hidden_size, num_layers).named_parameters():
            self.register_parameter(name, nn.Parameter(parameter.detach().clone()))

    def forward(self, inputs: Tensor) -> Tensor:
        """Hidden states of the last layer, [batch, time, hidden], from [batch, time, features]."""
        return lstm(inputs, [parameter for _, parameter in self.named_parameters()], self.num_layers)


class LastStep(nn.Module):
    """The last time step of a sequence."""

    def forward(self, sequence: Tensor) -> Tensor:
        """Return [batch, features] from [batch, time, features]."""
        return sequence[..., -1, :]


def lstm(inputs: Tensor, weights: list[Tensor], num_layers: int) -> Tensor:
    """Return the outputs of all layers over all steps; leading dimensions (users) of inputs and weights go along.

    Args:
        inputs: [..., batch, time, features].
        weights: for each layer weight_ih [..., 4H, F], weight_hh [..., 4H, H], bias_ih and bias_hh [..., 4H].
        num_layers: layers.
    """
    for layer in range(num_layers):
        weight_ih, weight_hh, bias_ih, bias_hh = weights[4 * layer : 4 * layer + 4]
        bias = (bias_ih + bias_hh)[..., None, :]
        # All input products at once: one large multiplication instead of one per step.
        flat = inputs.flatten(-3, -2) @ weight_ih.mT + bias
        projected = flat.unflatten(-2, inputs.shape[-3:-1])
        # Time first, so that the steps lie side by side; in one arithmetic forwards and backwards.
        steps = projected.movedim(-2, 0).contiguous()
        with torch.autocast(steps.device.type, enabled=False):
            recurrent = weight_hh.to(steps.dtype)
            if torch.is_grad_enabled():
                states = _Recurrence.apply(steps, recurrent)[0]  # type: ignore[no-untyped-call]
            else:  # nothing else is kept
                states = torch.stack([hidden for hidden, _, _ in _steps(steps, recurrent)])
        inputs = states.movedim(0, -2)
    return inputs


def _steps(projected: Tensor, weight_hh: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield state, cell and gates of every step."""
    hidden = cell = projected.new_zeros(*projected.shape[1:-1], weight_hh.shape[-1])
    for step in projected:
        hidden, cell, gates = _cell(step, hidden @ weight_hh.mT, cell)
        yield hidden, cell, gates


class _Recurrence(torch.autograd.Function):
    """One layer over all steps. Autograd would add up the gradient of the weights step by step; here it is one product.

    Inputs are projected inputs [time, ..., batch, 4H] and weight_hh [..., 4H, H]; outputs are states and cells
    [time, ..., batch, H] and gates [time, ..., batch, 4H], of which only states have a gradient.
    """

    @staticmethod
    def forward(projected: Tensor, weight_hh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, cells, gates = (torch.stack(each) for each in zip(*_steps(projected, weight_hh), strict=True))
        return states, cells, gates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[1], *output)

    @staticmethod
    def backward(ctx: Any, of_states: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        weight_hh, states, cells, gates = ctx.saved_tensors
        of_hidden, of_cell = torch.zeros_like(states[0]), torch.zeros_like(cells[0])
        first = torch.zeros_like(states[:1])
        before, cells_before = torch.cat([first, states[:-1]]), torch.cat([first, cells[:-1]])
        found = []
        for time in reversed(range(len(states))):
            arrived = of_states[time] + of_hidden
            of_gates, of_cell = _cell_backward(arrived, of_cell, cells_before[time], cells[time], gates[time])
            of_hidden = of_gates @ weight_hh
            found.append(of_gates)
        of_projected = torch.stack(found[::-1])
        # [..., time × batch, features] of both, multiplied once.
        rows = (tensor.movedim(0, -3).flatten(-3, -2) for tensor in (of_projected, before))
        return of_projected, next(rows).mT @ next(rows)

    @staticmethod
    def vmap(_: Any, dims: tuple[int | None, int | None], projected: Tensor, weight_hh: Tensor) -> tuple[Any, Any]:
        """Map users of a model that is no chain: one dimension more, after time."""
        users = projected.shape[dims[0]] if dims[0] is not None else weight_hh.shape[dims[1] or 0]
        steps, weights = (
            tensor.movedim(dim, 0) if dim is not None else tensor.expand(users, *tensor.shape)
            for tensor, dim in zip((projected, weight_hh), dims, strict=True)
        )
        return _Recurrence.apply(steps.transpose(0, 1), weights), (1, 1, 1)  # type: ignore[no-untyped-call]


def _cell(inputs: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new state, the new cell and the activated gates of one step; one kernel on a GPU."""
    if inputs.device.type == "cuda" and not torch.compiler.is_compiling():
        shape = inputs.shape
        hidden, new_cell, gates = torch.ops.aten._thnn_fused_lstm_cell(
            inputs.flatten(0, -2), recurrent.flatten(0, -2), cell.flatten(0, -2)
        )
        return hidden.view_as(cell), new_cell.view_as(cell), gates.view(shape)
    into, forget, new, out = (inputs + recurrent).chunk(4, dim=-1)
    into, forget, new, out = into.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    new_cell = forget * cell + into * new
    return out * new_cell.tanh(), new_cell, torch.cat([into, forget, new, out], dim=-1)


def _cell_backward(
    of_hidden: Tensor, of_cell: Tensor, before: Tensor, cell: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the sums that the gates were made of, and of the cell before."""
    if gates.device.type == "cuda" and not torch.compiler.is_compiling():
        flat = (tensor.flatten(0, -2) for tensor in (of_hidden, of_cell, before, cell, gates))
        of_gates, of_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*flat, False)
        return of_gates.view_as(gates), of_before.view_as(cell)
    into, forget, new, out = gates.chunk(4, dim=-1)
    bent = cell.tanh()
    through = of_cell + of_hidden * out * (1 - bent * bent)
    of_into, of_forget = through * new * into * (1 - into), through * before * forget * (1 - forget)
    of_new, of_out = through * into * (1 - new * new), of_hidden * bent * out * (1 - out)
    return torch.cat([of_into, of_forget, of_new, of_out], dim=-1), through * forget
