"""Windows whose rows the copy engine brings: channels, outputs and rows of a thread, threads and stages of a block."""

from inferno.schedule.convolution import staged_windows
from inferno.schedule.spaces.estimated import space_of, valid_of

space, valid = space_of(staged_windows), valid_of(staged_windows)
