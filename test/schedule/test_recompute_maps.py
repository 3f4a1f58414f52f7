"""Maps that are computed again by each of their readers."""

import torch

import inferno


def test_maps_of_maps_end():
    """frexp is a chain of maps, each of which two others read: computed again in both, they would double with each one."""
    compiled = inferno.compile(torch.frexp, (torch.ones(64),), target="sm_90a")
    schedules = compiled.ir("scheduled")
    assert schedules.count("func.func private") <= 20
    assert schedules.count("\n") < 5000
