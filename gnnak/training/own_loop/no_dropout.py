"""Switch off dropout, also inside attention functions and recurrent layers of PyTorch.

With and without padding, tensors have different sizes, so dropout draws other random
numbers for the same rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

DROPOUTS = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    torch.dropout,
    torch.dropout_,
    torch.alpha_dropout,
    torch.feature_dropout,
    torch.feature_alpha_dropout,
)
"""Functions that do nothing but dropout."""
ATTENTIONS = {F.scaled_dot_product_attention: 4, F.multi_head_attention_forward: 10}
"""Functions with a parameter `dropout_p`, and its position."""
RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
"""The functions that `nn.LSTM`, `nn.GRU` and `nn.RNN` call; their dropout is between
layers."""


class NoDropout(TorchFunctionMode):
    """Context manager: dropout has no effect."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call `func` with a dropout of 0; if it is a dropout, return its input."""
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        position = ATTENTIONS.get(func)
        if position is not None and len(args) <= position:
            kwargs = kwargs | {"dropout_p": 0.0}
        elif func in RECURRENT and bool in map(type, args):
            # The arguments are tensors, then has_biases, num_layers and dropout.
            position = [type(value) for value in args].index(bool) + 2
        if position is not None and len(args) > position:
            args = (*args[:position], 0.0, *args[position + 1 :])
        return func(*args, **kwargs)
