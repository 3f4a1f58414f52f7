"""Gathers that become one kernel, of which each looks up places that another kernel computes."""

import torch
from checks import scheduled


def model(x, y):
    number = torch.arange(257)
    place = number // 8 % 8 * 40 + number % 8 * 5 + number // 64
    return tuple(torch.index_select(t, 1, place) * 2 for t in (x, y))


def test_places_that_a_bundle_reads():
    """What computes them is asked about its readers again when these are one."""
    text = scheduled(model, (torch.randn(64, 320), torch.randn(64, 320))).stages["scheduled"]
    main = text[text.index("func.func @main"):]
    assert main[:main.index("return")].count("call @") == 2 and text.count('generator = "bundle"') == 1
