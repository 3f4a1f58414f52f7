"""Where a graph is traced, a convolution's result lies in memory as eager's does.

torch.export turns cuDNN and oneDNN off while it traces, so that no operation comes apart into theirs.  But it is by them that eager gives the result of
a convolution in channels last where its image or its window is, and so do all that follow: without them the program's results would be row-major, each
by a kernel that transposes it (an H200, bf16, 3x3, 128 channels of 32x256x256 to 64 in channels last: 402 us, and 634 with that).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import fake_impls

aten = torch.ops.aten
_OPERATIONS = (aten.convolution.default, aten.convolution_backward.default)


@contextmanager
def convolutions_as_eager() -> Iterator[None]:
    """Fake tensors of convolutions are those of cuDNN and oneDNN as they are set now."""
    rules = getattr(fake_impls, "op_implementations_dict", {})
    before = {op: rules[op] for op in _OPERATIONS if op in rules}
    rules.update({op: _by_libraries(rule) for op, rule in before.items()})
    try:
        yield
    finally:
        rules.update(before)


def _by_libraries(rule: Callable) -> Callable:
    wanted = torch._C._get_cudnn_enabled(), torch._C._get_mkldnn_enabled()

    def call(*args: Any, **kwargs: Any) -> Any:
        given = torch._C._get_cudnn_enabled(), torch._C._get_mkldnn_enabled()
        _set(*wanted)
        try:
            return rule(*args, **kwargs)
        finally:
            _set(*given)

    return call


def _set(cudnn: bool, mkldnn: bool) -> None:
    torch._C._set_cudnn_enabled(cudnn)
    torch._C._set_mkldnn_enabled(mkldnn)
