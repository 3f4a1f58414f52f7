"""What a captured program's arguments and results are, and how a call's Python values become them and back."""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import SUPPORTED_NODES, TreeSpec, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

from inferno.capture.input_parts import Part
from inferno.errors import InputError
from inferno.philox import Draw
from inferno.symbolic import Int

_MOST_NAMES = 20  # in an error
_PLAIN = (bool, int, float, str, type(None))  # of which equal ones are the same to a program


@dataclass(frozen=True, eq=False)
class Argument:
    """One argument of ``@main``.

    ``kind`` is "input", "parameter", "buffer" or "constant".  The current tensor of a parameter or buffer is
    ``table[key]``, a module's own dictionary, so that whatever the user assigns to the module is seen by the next call.
    Sizes that vary are expressions of symbols.  ``random``: no caller gives it; it is a draw, for the seed and the offset that are the
    arguments with these numbers.  ``order``: of the caller's dimensions, where those of ``shape`` are in another order, which is the one in memory.
    ``part``: what of a tensor of ``shape`` the caller's is, where that has gaps.
    """

    name: str
    kind: str
    shape: tuple[Int, ...]
    dtype: torch.dtype
    table: dict[str, Tensor] | None = None
    key: str = ""
    random: tuple[Draw, int, int] | None = None
    order: tuple[int, ...] | None = None
    part: Part | None = None

    @property
    def outer_shape(self) -> tuple[Int, ...]:
        """The shape that the caller or the module knows."""
        if self.part is not None:
            return self.part.shape
        return self.shape if self.order is None else tuple(self.shape[self.order.index(d)] for d in range(len(self.shape)))

    @property
    def outer_strides(self) -> tuple[int, ...]:
        """Those of a tensor that lies as the program reads it, of sizes that are known."""
        strides = [math.prod(self.shape[d + 1:]) for d in range(len(self.shape))]
        return tuple(strides if self.order is None else (strides[self.order.index(d)] for d in range(len(strides))))


@dataclass(frozen=True)
class Frozen:
    """The numbers of the arguments that change rarely, and how many bytes may be kept of what is made of them alone."""

    arguments: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Result:
    """One result of ``@main``: an "output", or a "mutation" that is written back to argument ``target``.

    ``strides`` are eager's where they are not row-major: ``@main`` gives the same memory with its dimensions in that order.
    """

    kind: str
    target: int
    shape: tuple[Int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...] | None = None

    def as_eager(self, made: Tensor) -> Tensor:
        """What ``@main`` gave, with eager's shape and strides.  It is no view: of one that was made where no gradients are computed autograd refuses
        a write where they are."""
        return made if self.strides is None else made.contiguous().as_strided(self.shape, self.strides).data


@dataclass(frozen=True)
class View:
    """An output that shares memory with an argument, or with a result of kind "output" (the other number is -1).

    ``whole``: it is that tensor itself.  ``offset`` is in bytes from where that tensor begins, ``base`` are the strides that it
    must have for this shape and these strides to be right, where there is more than one element along a dimension.
    """

    argument: int
    result: int
    whole: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    base: tuple[int, ...]

    def of(self, tensor: Tensor, name: str) -> Tensor:
        """The view of ``tensor``; InputError if its strides are not those of the example."""
        if self.whole:
            return tensor
        if any(n > 1 and have != wanted for n, have, wanted in zip(tensor.shape, tensor.stride(), self.base)):
            raise InputError(
                f"argument {name}: an output is a view of it, so its strides must be the example's: expected {self.base}, "
                f"got {tensor.stride()}; compile again for it"
            )
        offset = tensor.storage_offset() + self.offset // tensor.element_size()
        if self.dtype == tensor.dtype:
            return tensor.as_strided(self.shape, self.strides, offset)
        offset = (tensor.storage_offset() * tensor.element_size() + self.offset) // self.dtype.itemsize
        last = offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        if offset < 0 or (last + 1) * self.dtype.itemsize > tensor.untyped_storage().nbytes():  # set_ would make the storage larger
            raise InputError(f"argument {name}: an output is a view of it that lies outside of its memory; pass a tensor like the example's")
        return torch.empty(0, dtype=self.dtype, device=tensor.device).set_(tensor.untyped_storage(), offset, self.shape, self.strides)


@dataclass(frozen=True, eq=False)
class Signature:
    """Arguments, results and the nesting of both.

    ``leaves`` has one entry for each leaf of the user's (args, kwargs): the index of its argument, or the constant that
    the program was specialised for.  ``outputs`` likewise: the position among the "output" results, then among ``views``, or a
    constant.

    ``guards`` are Python expressions of the symbols' names that must be true of a call's sizes.

    Derived: where a call is tensors alone, ``simple_arity`` is the number of those by position and ``simple_names`` are those by name, else -1 and none;
    ``input_places`` are the inputs' argument numbers, ``held`` (number, table, key) of the other arguments, ``orders`` (number, order) of inputs that have one:
    ``arguments_of`` permutes these, but not what is held, which is told from other tensors by what it is; ``parts`` (number, part, shape) of inputs that are
    parts, of which it finds the whole;
    ``single_output`` says that the output is one tensor, and ``build`` makes the nest of its leaves.
    """

    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    leaves: tuple[tuple[bool, Any], ...]
    leaf_names: tuple[str, ...]
    input_spec: TreeSpec
    outputs: tuple[tuple[bool, Any], ...]
    output_spec: TreeSpec
    parameters: inspect.Signature | None = None
    guards: tuple[str, ...] = ()
    views: tuple[View, ...] = ()
    simple_arity: int = field(init=False, default=-1)
    simple_names: tuple[str, ...] = field(init=False, default=())
    held: tuple = field(init=False, default=())
    orders: tuple = field(init=False, default=())
    parts: tuple = field(init=False, default=())
    input_places: tuple = field(init=False, default=())
    single_output: bool = field(init=False, default=False)
    build: Callable[[list[Any], TreeSpec], Any] = field(init=False, default=tree_unflatten)

    def __post_init__(self) -> None:
        args_spec, kwargs_spec = _children(self.input_spec)
        plain = all(child.is_leaf() for s in (args_spec, kwargs_spec) for child in _children(s)) and all(t for t, _ in self.leaves)
        set_ = object.__setattr__
        set_(self, "simple_arity", args_spec.num_children if plain else -1)
        set_(self, "simple_names", tuple(kwargs_spec.context) if plain else ())
        set_(self, "held", tuple((i, a.table, a.key) for i, a in enumerate(self.arguments) if a.kind != "input"))
        set_(self, "input_places", tuple(index for is_tensor, index in self.leaves if is_tensor))
        set_(self, "orders", tuple((i, a.order) for i, a in enumerate(self.arguments) if a.kind == "input" and a.order is not None))
        set_(self, "parts", tuple((i, a.part, a.shape) for i, a in enumerate(self.arguments) if a.part is not None))
        set_(self, "build", _unflatten_sizes if torch.Size in types_within(self.output_spec) else tree_unflatten)
        set_(self, "single_output", self.output_spec.is_leaf() and self.outputs == ((True, 0),))

    def arguments_of(self, args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensors for ``@main``, in order; InputError if the call's structure is not the example's."""
        out: list[Any] = [None] * len(self.arguments)
        if not kwargs and not self.simple_names and len(args) == self.simple_arity:
            values: Sequence[Any] = args
        else:
            values = self._flatten(args, kwargs)
        for place, value in zip(self.input_places, values):
            out[place] = value
        for i, table, key in self.held:
            out[i] = table.get(key)
        for i, order in self.orders:
            if isinstance(out[i], Tensor) and out[i].dim() == len(order):
                out[i] = out[i].permute(order)
        for i, part, shape in self.parts:
            out[i] = part.whole(out[i], shape)
        return out

    def add_views(self, results: list[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
        """The "output" results and the views, of them and of the call's arguments."""
        return [*results, *(
            v.of(tensors[v.argument], self.arguments[v.argument].name) if v.argument >= 0 else v.of(results[v.result], "") for v in self.views
        )]

    def build_output(self, results: Sequence[Tensor]) -> Any:
        """The user's nest of outputs from the "output" results and the views."""
        if self.single_output:
            return results[0]
        return self.build([results[v] if is_tensor else v for is_tensor, v in self.outputs], self.output_spec)

    def _flatten(self, args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensor leaves of a call, checked against the example's structure and constants."""
        values, spec = tree_flatten((args, _in_order(kwargs, self.input_spec)))
        if spec != self.input_spec and self.parameters is not None:
            values, spec = self._rebind(args, kwargs)
        if spec != self.input_spec:
            spec = tree_flatten(tree_unflatten(values, spec))[1]  # as torch.export rebuilds it, which makes a tuple of a torch.Size
        if spec != self.input_spec:
            expected, got = _listed(self.leaf_names), _listed(names_of(self.parameters, args, kwargs))
            got = f"{got} in containers of other types" if got == expected else got
            raise InputError(
                f"the call's arguments are nested differently from the example's: expected {expected}, got {got}; pass them as in example_inputs and "
                f"kwargs, or compile again"
            )
        tensors = []
        for name, value, (is_tensor, constant) in zip(self.leaf_names, values, self.leaves):
            if is_tensor:
                tensors.append(value)
            elif type(value) is not type(constant) or value != constant:
                raise InputError(f"argument {name}: expected {constant!r}, which the program was compiled for, got {value!r}; compile again for it")
        return tensors

    def _rebind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], TreeSpec]:
        """The same call with its arguments passed by position or by name as in the example, and with defaults said where it said them."""
        try:
            bound = self.parameters.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InputError(f"the call does not fit the model's signature {self.parameters}: {error}") from error
        example = tree_unflatten([None] * self.input_spec.num_leaves, self.input_spec)
        by_position = [p.name for p in self.parameters.parameters.values() if p.kind.name.startswith("POSITIONAL")]
        flat: dict[str, Any] = {}
        others: tuple = ()
        for name, value in bound.items():
            kind = self.parameters.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                flat.update(value)
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                others = value
            else:
                flat[name] = value
        wanted = {*by_position[:len(example[0])], *example[1]}
        for name, parameter in self.parameters.parameters.items():  # a default that one of the two calls says and the other does not
            if parameter.default is not inspect.Parameter.empty and (name in wanted) != (name in flat):
                if name in wanted:
                    flat[name] = parameter.default
                elif type(flat[name]) in _PLAIN and type(flat[name]) is type(parameter.default) and flat[name] == parameter.default:
                    del flat[name]
        first = tuple(flat.pop(n) for n in by_position[:len(example[0])] if n in flat)
        return tree_flatten(((*first, *others), _in_order(flat, self.input_spec)))


def _unflatten_sizes(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """``tree_unflatten``, which makes tuples of a torch.Size."""
    values = iter(leaves)

    def make(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return next(values)
        children = [make(c) for c in _children(spec)]
        return torch.Size(children) if spec.type is torch.Size else SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)

    return make(spec)


def types_within(spec: TreeSpec) -> set[type]:
    """The types of the nests in a structure."""
    return {spec.type, *(t for c in _children(spec) for t in types_within(c))} if not spec.is_leaf() else set()


def _children(spec: TreeSpec) -> list[TreeSpec]:
    return spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs


def _in_order(kwargs: dict[str, Any], spec: TreeSpec) -> dict[str, Any]:
    """Keyword arguments in the example's order, since the order of a dictionary is part of a tree's structure."""
    example = tree_unflatten([None] * spec.num_leaves, spec)[1]
    if set(example) != set(kwargs):
        return kwargs
    return {k: kwargs[k] for k in example}


def names_of(parameters: inspect.Signature | None, args: tuple, kwargs: dict[str, Any]) -> list[str]:
    """The names of a call's leaves by the model's ``parameters``, where these are known: ``x``, ``batch['ids']``."""
    positional = [p.name for p in parameters.parameters.values() if p.kind.name.startswith("POSITIONAL")] if parameters else []
    variadic = next((p.name for p in parameters.parameters.values() if p.kind.name == "VAR_POSITIONAL"), "args") if parameters else "args"
    names = []
    for path, _ in tree_flatten_with_path((tuple(args), kwargs))[0]:
        text = keystr(path)
        match = re.match(r"\[(\d+)\]\[(?:'(\w+)'|(\d+))\](.*)", text, re.S)
        if match and match[1] == "0":
            i = int(match[3])
            names.append((positional[i] if i < len(positional) else f"{variadic}[{i - len(positional)}]") + match[4])
        elif match:
            names.append(f"{match[2]}{match[4]}")
        else:
            names.append(text)
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_MOST_NAMES], *["..."] * (len(names) > _MOST_NAMES)]) or "none"
