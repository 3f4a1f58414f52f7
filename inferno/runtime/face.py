"""A compiled model as an nn.Module: the face that it shows to code that moves, saves, copies or trains modules.

Its parameters, buffers, submodules and hooks are the model's own, the very same dictionaries, so ``state_dict``, ``to``, ``train``
or an optimizer do to the model what they do through it.  What was compiled holds for the model as it was then: a module that was
replaced, or put into the other mode of ``train`` and ``eval``, is noticed at the next call.
"""

import copy
import dataclasses
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from inferno.capture import Signature
from inferno.errors import ModelChanged

# What a module keeps for itself, and a face has in common with the model.
_SHARED = (
    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_backward_hooks", "_backward_pre_hooks",
)


@dataclass(frozen=True)
class Recipe:
    """What a model was compiled with: ``args`` and ``kwargs`` have an ``Example`` for each tensor."""

    args: tuple
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    options: dict[str, Any]


@dataclass(frozen=True)
class Example:
    """A tensor without its data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str

    def make(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device).zero_()


def make_recipe(args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any, options: dict[str, Any]) -> Recipe:
    """The recipe for these arguments, whose tensors are not kept, but for those without strides, such as sparse ones."""
    def describe(leaf: Any) -> Any:
        plain = isinstance(leaf, Tensor) and leaf.layout is torch.strided and not leaf.is_nested
        return Example(tuple(leaf.shape), leaf.stride(), leaf.dtype, str(leaf.device)) if plain else leaf

    return Recipe(*tree_map(describe, (tuple(args), kwargs)), dynamic_shapes, options)


class Face(torch.nn.Module):
    """Base of what ``inferno.compile`` returns.  Subclasses have ``_run(args, kwargs)``, a call without hooks, and
    ``_copy_for(model, memo)``, the same for a copy of the model."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Face":
        self = super().__new__(cls)
        torch.nn.Module.__init__(self)
        self.__dict__.update(_model=None, _recipe=None, _before=None, _hooked_early=False)
        return self

    def attach(self, model: Any, recipe: Recipe | None) -> "Face":
        """Be the face of ``model``, which ``recipe`` compiles again where a pickle is loaded."""
        self.__dict__.update(_model=model, _recipe=recipe)
        if isinstance(model, torch.nn.Module):
            self.__dict__.update({name: model.__dict__[name] for name in _SHARED if name in model.__dict__})
            self.__dict__.update(_before=make_guard(model), _hooked_early=bool(model._forward_pre_hooks))
        elif parts := self._parts(model):
            self.__dict__["_before"] = make_guard(torch.nn.ModuleDict(parts))
        return self

    def _parts(self, model: Any) -> dict[str, torch.nn.Module]:
        """The modules of a function that a call reads, by the names that they have as its parts."""
        return {}

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        model = self.__dict__.get("_model")
        return model.training if isinstance(model, torch.nn.Module) else False

    @training.setter
    def training(self, mode: bool) -> None:
        if isinstance(model := self.__dict__.get("_model"), torch.nn.Module):
            model.training = mode

    def train(self, mode: bool = True) -> "Face":
        """Put the model into training mode, or out of it.  What was compiled is for the mode that it was compiled in."""
        if isinstance(self._model, torch.nn.Module):
            self._model.train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_model")
            if model is None or name.startswith("__"):
                raise
            return getattr(model, name)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's."""
        return self._owner.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._owner._load_from_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> "Face":
        self._owner._apply(*args, **kwargs)
        return self

    @property
    def _owner(self) -> Any:
        return self._model if isinstance(self._model, torch.nn.Module) else super()

    def _hooked(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call with the model's forward hooks, which get a copy of the model that shares everything with it."""
        shell = copy.copy(self._model)
        shell.forward = functools.partial(_call_run, self, shell)
        return torch.nn.Module.__call__(shell, *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Face":
        model = copy.deepcopy(self._model, memo) if isinstance(self._model, torch.nn.Module) else self._model
        return self._copy_for(model, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._recipe is None:
            raise TypeError(f"cannot pickle {self!r}: it was read from a package; copy the package's file instead")
        return compile_again, (self._model, self._recipe)


def rebind(signature: Signature, old: Any, new: Any, memo: dict[int, Any]) -> Signature:
    """The signature with the tensors of ``new``, a deep copy of the model ``old`` that ``memo`` knows."""
    tables: dict[int, dict] = {}
    if isinstance(old, torch.nn.Module):
        for a, b in zip(old.modules(), new.modules()):
            tables.update({id(a._parameters): b._parameters, id(a._buffers): b._buffers, id(a.__dict__): b.__dict__})

    def move(argument: Any) -> Any:
        table = argument.table
        if table is None:
            return argument
        if id(table) not in tables:
            tables[id(table)] = copy.deepcopy(table, memo)
        return dataclasses.replace(argument, table=tables[id(table)])

    return dataclasses.replace(signature, arguments=tuple(map(move, signature.arguments)))


def _call_run(face: Face, shell: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    attributes = face._model.__dict__
    for name, value in shell.__dict__.items():  # what hooks set, as those of spectral_norm do the weight, is where the program reads it
        before = attributes.get(name)
        if not isinstance(value, Tensor) or before is value:
            continue
        if isinstance(before, Tensor) and not face._hooked_early and any(_share(before, p) for p in face._model._parameters.values() if p is not None):
            raise ModelChanged(f"a forward hook of the model sets {name}, which was a parameter when it was compiled; compile the model again")
        attributes[name] = value
    return face._run(args, kwargs)


def _share(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def compile_again(model: Any, recipe: Recipe) -> Any:
    """What a pickle of a compiled model is: the model, and how it was compiled.  The cache on disk makes this short."""
    from inferno.runtime.compile import compile

    make = lambda leaf: leaf.make() if isinstance(leaf, Example) else leaf  # noqa: E731
    args, kwargs = tree_map(make, (recipe.args, recipe.kwargs), is_leaf=lambda v: isinstance(v, Example))
    return compile(model, args, kwargs=kwargs, dynamic_shapes=recipe.dynamic_shapes, **recipe.options)


def make_guard(model: torch.nn.Module) -> Callable[[], Any]:
    """A function that says whether the model has forward hooks now; ModelChanged if it is not the model that was compiled.

    It runs at every call, so it is text without a loop of Python's: 40 ns, and 40 ns a module.
    """
    modules = list(model.modules())
    parents = [m._modules for m in modules if m._modules]
    tied = _tied(model)
    scope = {f"p{i}": table for i, table in enumerate(parents)}
    scope |= {f"t{i}": table for i, pair in enumerate(tied) for table in (pair[0][0],)} | {f"o{i}": pair[1][0] for i, pair in enumerate(tied)}
    same = [f"t{i}[{pair[0][1]!r}] is o{i}[{pair[1][1]!r}]" for i, pair in enumerate(tied)]
    scope.update({
        "hooks": model._forward_hooks, "early": model._forward_pre_hooks, "mode": operator.itemgetter("training"),
        "tables": [m.__dict__ for m in modules], "modes": [m.training for m in modules], "children": [c for t in parents for c in t.values()],
        "fail": functools.partial(_explain_change, model, [(n, m, m.training) for n, m in model.named_modules()], tied),
    })
    now = ", ".join(f"*p{i}.values()" for i in range(len(parents)))
    text = [
        "def before():", "    try:", f"        same = {' and '.join(['list(map(mode, tables)) == modes', f'[{now}] == children', *same])}",
        "    except KeyError:", "        same = False", "    if not same:", "        fail()", "    return hooks or early",
    ]
    exec(compile("\n".join(text), "<inferno guard>", "exec"), scope)
    return scope["before"]


def _tied(model: torch.nn.Module) -> list[tuple[tuple[dict, str, str], tuple[dict, str, str]]]:
    """Pairs of places, (table, key, name), that hold one tensor: only one of them is read."""
    first: dict[int, tuple[dict, str, str]] = {}
    pairs = []
    for path, module in model.named_modules():
        for table in (module._parameters, module._buffers, module.__dict__):
            for key, value in table.items():
                if isinstance(value, Tensor):
                    place = table, key, f"{path}.{key}" if path else key
                    if first.setdefault(id(value), place) is not place:
                        pairs.append((first[id(value)], place))
    return pairs


def _explain_change(model: torch.nn.Module, modes: list[tuple[str, torch.nn.Module, bool]], tied: list) -> None:
    now = dict(model.named_modules())
    for name, module, training in modes:
        place = f"module {name}" if name else "the model"
        if now.get(name) is not module:
            raise ModelChanged(f"{place} is not the one that was compiled: it was replaced or taken away; compile the model again")
        if module.training is not training:
            words = ("eval", "train") if training is False else ("train", "eval")
            raise ModelChanged(
                f"{place} was compiled in {words[0]} mode and is in {words[1]} mode now, in which it may compute something else: "
                f"call {words[0]}(), or compile the model again"
            )
    for (table, key, name), (other, other_key, other_name) in tied:
        if table.get(key) is not other.get(other_key):
            raise ModelChanged(f"{name} and {other_name} were one tensor when the model was compiled and are two now; compile it again")
    known = {name for name, _, _ in modes}
    for name in now:
        if name not in known:
            raise ModelChanged(f"module {name} was not there when the model was compiled; compile the model again")
    raise ModelChanged("the model is not the one that was compiled; compile it again")
