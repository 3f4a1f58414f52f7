"""The cases: operators of torch's database with the dtypes that they list, and their sample inputs as functions of tensors."""

import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.testing._internal import common_methods_invocations, common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
MOST = 400  # samples of one operator and dtype; stft alone has more, which differ in one option each

# Families are prefixes of names; these are apart from the rest, because they are mostly libraries' algorithms, not formulas.
APART = ("linalg", "special", "fft", "sparse")
# The content of what these make is undefined.
UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
# Results by number that hold a seed and an offset of random numbers, or room for them.
SEEDS = {"torch.ops.aten._flash_attention_forward": (2, 3, 4), "torch.ops.aten._efficient_attention_forward": (2, 3)}


def _call_it(function: Callable, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# The database seeds the generator inside of some of its functions, which no graph can hold; whoever judges a sample seeds it before.
common_methods_invocations.wrapper_set_seed = _call_it

# It looks through the stack for a unittest that asks, twice for each operator: 0.1 s under pytest.
core.extract_test_fn = common_utils.extract_test_fn = lambda: None


@dataclass(frozen=True)
class Sample:
    """``function(*tensors)`` is the operator's call; ``exact`` is the same call with float64 in place of other float dtypes.  ``differentiable``:
    the numbers of the tensors of which gradients are wanted."""

    tensors: list[Tensor]
    function: Callable[..., Any] = field(repr=False)
    exact: Callable[..., Any] = field(repr=False)
    args: tuple
    kwargs: dict[str, Any]
    differentiable: tuple[int, ...] = ()


def operators() -> dict[str, Any]:
    """The database by unique name: ``add``, ``var:unbiased`` (a variant)."""
    return {f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def family(name: str) -> str:
    """``linalg``, ``nn.functional``, ...; ``tensor`` for names without a prefix."""
    if name.startswith(("cholesky", "svd", "qr", "lu", "geqrf", "ormqr", "triangular_solve", "pinverse", "logdet", "svd_lowrank")):
        return "linalg"
    prefix = name.partition(":")[0].rpartition(".")[0]
    return {"": "tensor", "torch.ops.aten": "tensor", "ops.aten": "tensor"}.get(prefix, prefix)


def dtypes(op: Any, device: str = "cpu") -> list[torch.dtype]:
    """float32 and what else of DTYPES the operator lists."""
    listed = op.supported_dtypes(torch.device(device).type)
    return [d for d in DTYPES if d in listed]


def samples(op: Any, dtype: torch.dtype, device: str = "cpu", count: int = 0, gradients: bool = False, strided: bool = False) -> list[tuple[int, Sample]]:
    """The numbered samples, the same ones each time; with a ``count`` that many of them, spread over all; ``strided``: of parts of larger tensors."""
    torch.manual_seed(0)
    random.seed(0)
    # Each sample has a seed, which torch also keeps, with the stack, for the devices that it has not met yet.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    with warnings.catch_warnings(), mock.patch.object(torch, "manual_seed", seed):
        warnings.simplefilter("ignore")
        found = list(enumerate(itertools.islice(op.sample_inputs(device, dtype, requires_grad=gradients), MOST)))
    if count and len(found) > count:
        found = [found[i * (len(found) - 1) // max(1, count - 1)] for i in range(count)]
    made = [(i, _sample(op.op, s)) for i, s in found]
    return [(i, replace(s, tensors=[_part(t) for t in s.tensors])) for i, s in made] if strided else made


def _part(tensor: Tensor) -> Tensor:
    """The same numbers between others."""
    if not tensor.dim() or tensor.layout is not torch.strided:
        return tensor
    whole = tensor.new_ones((*tensor.shape[:-1], tensor.shape[-1] + 24))
    part = whole[..., 16:16 + tensor.shape[-1]]
    return part.copy_(tensor)


def cases(names: list[str], only: list[torch.dtype], device: str = "cpu", gradients: bool = False) -> Iterator[tuple[str, str]]:
    """(operator, dtype) for each of ``names``; with ``gradients`` those that have some."""
    known = operators()
    for name in names:
        for dtype in dtypes(known[name], device):
            if dtype in only and (not gradients or dtype in known[name].supported_backward_dtypes(torch.device(device).type)):
                yield name, str(dtype).removeprefix("torch.")


def _sample(function: Callable, sample: Any) -> Sample:
    leaves, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, v in enumerate(leaves) if isinstance(v, Tensor)]

    def call_with(constants: list[Any]) -> Callable[..., Any]:
        def call(*tensors: Tensor) -> Any:
            values = list(constants)
            for i, tensor in zip(places, tensors):
                values[i] = tensor
            args, kwargs = tree_unflatten(values, spec)
            return function(*args, **kwargs)

        return call

    constants = [None if isinstance(v, Tensor) else v for v in leaves]
    widened = tree_map(lambda v: torch.float64 if isinstance(v, torch.dtype) and v.is_floating_point else v, constants)
    tensors = [leaves[i].detach() for i in places]
    wanted = tuple(n for n, i in enumerate(places) if leaves[i].requires_grad)
    return Sample(tensors, call_with(constants), call_with(widened), tuple(sample.args), dict(sample.kwargs), wanted)
