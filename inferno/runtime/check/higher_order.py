"""Operations of functions (branches, loops, scans) under a dispatch mode that has to see what the functions do."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._higher_order_ops.effects import new_token_tensor, with_effects
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


def run_higher_order(
    mode: TorchDispatchMode, operation: HigherOrderOperator, args: tuple, kwargs: dict[str, Any], read: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """The result of an operation of functions on its values as they are ``read``; ``mode``, which is not active now, sees one by one
    the operations that the functions consist of."""
    def inside(function: Callable) -> Callable:
        def run(*values: Any, **named: Any) -> Any:
            with mode:
                return function(*values, **named)

        return run

    def given(value: Any) -> Any:
        return inside(value) if callable(value) and not isinstance(value, (Tensor, OpOverload)) else read(value)

    args, kwargs = tree_map(given, (args, kwargs))
    if operation is not with_effects:
        return operation(*args, **kwargs)
    _, effect, *rest = args  # one operation, and the token that orders it among others
    result = inside(effect)(*rest, **kwargs)
    return new_token_tensor(), *(result if isinstance(result, tuple) else (result,))
