"""Recurrences in one launch, on a GPU: numbers, the same bits each time, and in a graph."""

import pytest
import torch
from checks import assert_right, poison_memory
from recurrent_cases import Cells, Own
from torch import nn

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0)
    or torch.cuda.get_device_properties(0).multi_processor_count < 132, reason="needs a GPU with 132 multiprocessors")


def randn(*shape):
    return torch.randn(shape, device="cuda")


CASES = {
    "lstm": lambda: (nn.LSTM(96, 256), (randn(12, 8, 96),)),
    "lstm, large": lambda: (nn.LSTM(96, 1024), (randn(6, 8, 96),)),
    "lstm, a row": lambda: (nn.LSTM(96, 300), (randn(12, 1, 96),)),
    "lstm, two directions": lambda: (nn.LSTM(96, 256, bidirectional=True, batch_first=True), (randn(5, 12, 96),)),
    "lstm bf16": lambda: (nn.LSTM(96, 512).bfloat16(), (randn(12, 16, 96).bfloat16(),)),
    "gru, two layers": lambda: (nn.GRU(96, 200, 2), (randn(12, 20, 96),)),
    "rnn": lambda: (nn.RNN(96, 333), (randn(12, 3, 96),)),
    "lstm cells": lambda: (Cells(nn.LSTMCell(96, 256)), (randn(8, 12, 96), randn(8, 256))),
    "own": lambda: (Own(256), (randn(12, 8, 256), randn(8, 256))),
}


@pytest.mark.parametrize("name", CASES)
def test_right_and_the_same(name):
    torch.manual_seed(0)
    model, args = CASES[name]()
    model = model.cuda()
    compiled = assert_right(model, args)
    assert any(row.generator == "recurrence" for row in compiled.explain().rows)
    poison_memory()
    with torch.no_grad():
        first, *others = (torch.utils._pytree.tree_leaves(compiled(*args)) for _ in range(10))
    for other in others:
        torch.testing.assert_close(first, other, rtol=0, atol=0)


def test_in_a_graph_and_beside_each_other():
    torch.manual_seed(0)
    model, args = CASES["lstm"]()
    compiled, streams = assert_right(model.cuda(), args), [torch.cuda.Stream() for _ in range(2)]
    with torch.no_grad():
        wanted = compiled(*args)[0]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=stream):
            found = compiled(*args)[0]
        for _ in range(20):
            graph.replay()
        made = []
        for stream in streams:
            with torch.cuda.stream(stream):
                made += [compiled(*args)[0] for _ in range(10)]
    torch.cuda.synchronize()
    for x in (found, *made):
        torch.testing.assert_close(x, wanted, rtol=0, atol=0)
