"""Windows on CUDA cores: lanes, outputs side by side and rows a thread, threads a block."""

from inferno.schedule.convolution import windows
from inferno.schedule.spaces.estimated import space_of, valid_of

space, valid = space_of(windows), valid_of(windows)
