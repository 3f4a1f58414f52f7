"""Depthwise convolutions of large windows, for the tests here and on a GPU."""

from collections.abc import Callable

from torch import nn

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "13x13": (lambda: nn.Conv2d(8, 8, 13, padding=6, groups=8), (2, 8, 14, 14)),
    "13x13 of blocks": (lambda: nn.Conv2d(8, 8, 13, padding=6, groups=8, bias=False), (1, 8, 20, 70)),
    "31x31 of few columns": (lambda: nn.Conv2d(16, 16, 31, padding=15, groups=16), (2, 16, 9, 11)),
    "31x31 without padding": (lambda: nn.Conv2d(8, 8, 31, groups=8), (1, 8, 40, 75)),
    "51x5": (lambda: nn.Conv2d(8, 8, (51, 5), padding=(25, 2), groups=8), (2, 8, 30, 41)),
    "5x51": (lambda: nn.Conv2d(8, 8, (5, 51), padding=(2, 25), groups=8), (2, 8, 30, 41)),
    "by steps": (lambda: nn.Conv2d(8, 8, 13, (2, 3), (6, 5), groups=8), (2, 8, 40, 71)),
    "dilated": (lambda: nn.Conv2d(8, 8, 13, 1, (12, 18), (2, 3), groups=8), (1, 8, 40, 71)),
    "dilated, by steps": (lambda: nn.Conv2d(8, 8, (12, 11), (1, 2), (3, 30), (1, 6), groups=8), (1, 8, 25, 90)),
    "more padding than window": (lambda: nn.Conv2d(8, 8, 12, padding=20, groups=8), (1, 8, 6, 40)),
    "several of a channel": (lambda: nn.Conv2d(6, 18, 13, padding=6, groups=6), (2, 6, 17, 33)),
    "around": (lambda: nn.Conv2d(8, 8, 13, padding=6, groups=8, padding_mode="circular"), (2, 8, 16, 16)),
    "one image": (lambda: nn.Conv2d(8, 8, 13, padding="same", groups=8), (8, 21, 23)),
    "1d": (lambda: nn.Conv1d(8, 8, 201, padding=100, groups=8), (2, 8, 300)),
    "1d, as long as its input": (lambda: nn.Conv1d(8, 8, 256, padding=255, groups=8), (2, 8, 256)),
    "transposed": (lambda: nn.ConvTranspose2d(8, 8, 13, 2, 6, groups=8), (2, 8, 11, 12)),
}
