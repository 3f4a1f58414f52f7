"""The weights of a package: which tensors are stored, and how they are a module's state again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from inferno.capture import Signature
from inferno.errors import PackageError

OURS = "__inferno__/"  # what the names of tensors that are no weights begin with
NONPERSISTENT = "nonpersistent"  # a buffer that is not in the model's state_dict


@dataclass(frozen=True)
class Weights:
    """``tensors`` to store, on the CPU; ``names``: of the tensor of each argument that is no input; ``strides``: of those that an
    output is a view of, where they are not row-major; ``state``: (name in the model, kind, name of the tensor)."""

    tensors: dict[str, Tensor]
    names: dict[int, str]
    strides: dict[str, list[int]]
    state: list[list[str]]


def collect(signature: Signature, model: Any) -> Weights:
    """The weights as they are now; equal views of one memory are one tensor.  ``model`` knows the names of those that are tied."""
    tensors: dict[str, Tensor] = {}
    names: dict[int, str] = {}
    by_memory: dict[tuple, str] = {}
    storages: dict[int, set[str]] = {}
    for i, argument in enumerate(signature.arguments):
        if argument.kind == "input":
            continue
        tensor = argument.table[argument.key].detach()
        if tuple(tensor.shape) != tuple(argument.outer_shape) or tensor.dtype is not argument.dtype:
            raise PackageError(
                f"{argument.kind} {argument.name}: compiled for {tuple(argument.outer_shape)} {argument.dtype}, it is now {tuple(tensor.shape)} "
                f"{tensor.dtype}; compile the model again"
            )
        key = _memory(tensor)
        if key not in by_memory:
            name = argument.name
            while name in tensors or name.startswith(OURS):
                name += "_"
            held = tensor.cpu().contiguous()
            by_memory[key], tensors[name] = name, held.clone() if tensor.device.type == "cpu" else held
        names[i] = by_memory[key]
        if tensor.numel():
            storages.setdefault(tensor.untyped_storage().data_ptr(), set()).add(names[i])
    _refuse_overlaps(signature, names, storages)
    return Weights(tensors, names, _strides(signature, names), _state(signature, model, names, by_memory))


def _memory(tensor: Tensor) -> tuple:
    """What two tensors have in common that are one."""
    if not tensor.numel():
        return ("empty", id(tensor.untyped_storage()), tensor.shape, tensor.dtype)
    return tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.stride(), tensor.shape, tensor.dtype


def _refuse_overlaps(signature: Signature, names: Mapping[int, str], storages: Mapping[int, set[str]]) -> None:
    for result in signature.results:
        if result.kind == "mutation" and result.target in names:
            name = names[result.target]
            for held in storages.values():
                if name in held and len(held) > 1:
                    raise PackageError(
                        f"{name} is written by the model and shares memory with {', '.join(sorted(held - {name}))}; "
                        f"a package keeps no tensors that overlap in part: clone one of them"
                    )


def _strides(signature: Signature, names: Mapping[int, str]) -> dict[str, list[int]]:
    """A view's strides are counted in those of the tensor that it is a view of; and what a program reads in another order lies in it."""
    arguments = signature.arguments
    found = {name: list(arguments[i].outer_strides) for i, name in names.items() if arguments[i].order is not None}
    for i in sorted({v.argument for v in signature.views} & names.keys()):
        tensor = signature.arguments[i].table[signature.arguments[i].key]
        if not tensor.is_contiguous():
            if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
                raise PackageError(f"{names[i]}: an output is a view of it, and its memory has gaps or overlaps; make it contiguous")
            found[names[i]] = list(tensor.stride())
    return found


def _state(signature: Signature, model: Any, names: Mapping[int, str], by_memory: Mapping[tuple, str]) -> list[list[str]]:
    """Parameters and buffers by the names that the model has for them: more than one for what is tied."""
    if not isinstance(model, nn.Module):
        return [[a.name, a.kind, names[i]] for i, a in enumerate(signature.arguments) if a.kind in ("parameter", "buffer")]
    found = []
    for path, module in model.named_modules(remove_duplicate=False):
        for kind, table in (("parameter", module._parameters), ("buffer", module._buffers)):
            for key, tensor in table.items():
                stored = by_memory.get(_memory(tensor.detach())) if tensor is not None else None
                if stored is not None:
                    unsaved = kind == "buffer" and key in module._non_persistent_buffers_set
                    found.append([f"{path}.{key}" if path else key, NONPERSISTENT if unsaved else kind, stored])
    return found


def hold(state: Sequence[Sequence[str]], weights: Mapping[str, Tensor]) -> tuple[nn.Module, dict[str, tuple[dict, str]]]:
    """A module whose state the weights are, and where it holds each.  Raises ValueError, TypeError or KeyError for a state that
    is none."""
    root, places, made = nn.Module(), {}, {}
    for name, kind, stored in state:
        if not all(type(n) is str for n in (name, kind, stored)) or kind not in ("parameter", "buffer", NONPERSISTENT):
            raise ValueError(f"its state has a {kind!r:.40} called {name!r:.60}")
        *path, key = name.split(".")
        module = root
        for part in path:
            if not part:
                raise ValueError(f"its state has a {kind} called {name!r:.60}")
            module = module._modules.setdefault(part, nn.Module())
        if key in module._parameters or key in module._buffers or key in module._modules:
            raise ValueError(f"its state has two of {name!r:.60}")
        if kind == NONPERSISTENT:
            kind = "buffer"
            module._non_persistent_buffers_set.add(key)
        table = module._parameters if kind == "parameter" else module._buffers
        if (kind, stored) not in made:
            made[kind, stored] = nn.Parameter(weights[stored], requires_grad=False) if kind == "parameter" else weights[stored]
        table[key] = made[kind, stored]
        places.setdefault(stored, (table, key))
    return root.eval(), places


def held_by(signature: Signature, places: Mapping[str, tuple[dict, str]]) -> Signature:
    """The signature with its weights where ``hold`` has them; what is no state stays where it was read."""

    def move(argument: Any) -> Any:
        table, key = places.get(argument.key, (argument.table, argument.key)) if argument.table is not None else (None, "")
        return replace(argument, table=table, key=key)

    return replace(signature, arguments=tuple(map(move, signature.arguments)))
