"""The states of an LSTM, whose decomposition in torch 2.11 is wrong: it squeezes the batch dimension instead of the one that it has added, so that the states
of several batches have a dimension too many."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch._decomp import decompositions

_torchs_own = decompositions.one_layer_lstm


@contextlib.contextmanager
def right_lstm_states() -> Iterator[None]:
    """An LSTM comes apart right inside."""
    before, decompositions.one_layer_lstm = decompositions.one_layer_lstm, _one_layer
    try:
        yield
    finally:
        decompositions.one_layer_lstm = before


def _one_layer(inputs: Tensor, hidden: tuple[Tensor, Tensor], *args: Any, **kwargs: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    out, states = _torchs_own(inputs, hidden, *args, **kwargs)
    return out, tuple(new.squeeze(0) if new.dim() > old.dim() else new for new, old in zip(states, hidden))
