"""What a model asserts of the tensors of a call: ``assert (y < 100).all()`` under Dynamo, and ``torch._assert_async``.

An assertion is no kernel's: it stays an operation of torch beside what is compiled, and stops the program as in eager.
"""

from typing import Any

import torch
from torch import Tensor

from inferno.errors import AssertionFailed

_MESSAGE = "Expected Tensor with single nonzero value, but got zero"  # eager's

ASSERTIONS = {torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg}


def asserted(*args: Any, **kwargs: Any) -> None:
    """torch's operation, whose error on the CPU is one of ours."""
    try:
        torch._assert_async(*args, **kwargs)
    except RuntimeError as error:
        raise AssertionFailed(str(error)) from None


def with_message(input: Tensor, message: str | None = None) -> Any:
    """The same with a message: one without is to AOTAutograd and torch.export an operation that does nothing.  NotImplemented where there is one."""
    return torch._assert_async(input, _MESSAGE) if message is None else NotImplemented
