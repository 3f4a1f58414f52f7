"""Maps that are computed again by each of their readers."""

import torch
from checks import scheduled


def test_maps_of_maps_end():
    """frexp is a chain of maps, each of which two others read: computed again in both, they would double with each one."""
    schedules = scheduled(torch.frexp, (torch.ones(64),)).ir("scheduled")
    assert schedules.count("func.func private") <= 20
    assert schedules.count("\n") < 5000
