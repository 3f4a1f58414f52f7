"""Depthwise convolutions on tensor cores: rows of a block."""

from inferno.schedule.convolution import band_windows
from inferno.schedule.spaces.estimated import space_of, valid_of

space, valid = space_of(band_windows), valid_of(band_windows)
