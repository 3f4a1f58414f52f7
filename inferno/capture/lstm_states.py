"""The states of an LSTM, which torch 2.11 takes apart wrong: it takes the batches' dimension off them in place of the one that it has put on, so that
those of several batches have one too many."""

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
