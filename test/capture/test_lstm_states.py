"""The states of an LSTM, of a torch that gives them one dimension too many."""

import pytest
import torch
from torch._decomp import decompositions

from inferno.capture import lstm_states


@pytest.mark.parametrize("dimensions", [2, 3])
def test_states_are_those_of_batches(monkeypatch, dimensions):
    def own(inputs, hidden, params, has_biases):
        return inputs, [h.unsqueeze(0) if dimensions == 3 else h for h in hidden]

    monkeypatch.setattr(lstm_states, "_torchs_own", own)
    hidden = torch.randn(2, 5), torch.randn(2, 3)
    with lstm_states.right_lstm_states():
        _, states = decompositions.one_layer_lstm(torch.randn(4, 2, 6), hidden, [], False)
    assert all(torch.equal(new, old) for new, old in zip(states, hidden, strict=True))
    assert decompositions.one_layer_lstm is not lstm_states._one_layer
