"""A program's signature as plain data, such as JSON has, and back."""

import ast
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch import Tensor

from inferno.capture import Argument, Result, Signature, View
from inferno.errors import PackageError
from inferno.runtime.plain_data import reader, to_data
from inferno.runtime.package.tree_data import decode_constant, decode_tree, encode_constant, encode_tree
from inferno.symbolic import Size

_LATER = ("order", "part")  # that packages have since later versions, where there is any
_KINDS = ("input", "parameter", "buffer", "constant")
_MOST_GUARD = 10_000  # characters; no guard that torch makes comes near


def signature_to_data(signature: Signature, weights: Mapping[int, str]) -> dict[str, Any]:
    """The signature as data; ``weights`` names the tensor of each argument that is no input."""
    return {
        "arguments": [{**_encode(a), **({"weight": weights[i]} if i in weights else {})} for i, a in enumerate(signature.arguments)],
        "results": [_encode(r) for r in signature.results],
        "views": [_encode(v) for v in signature.views],
        "inputs": encode_tree(signature.input_spec, "the inputs"),
        "leaves": [
            {"argument": v} if is_tensor else {"constant": encode_constant(v, f"argument {name}")}
            for name, (is_tensor, v) in zip(signature.leaf_names, signature.leaves)
        ],
        "leaf_names": list(signature.leaf_names),
        "outputs": encode_tree(signature.output_spec, "the outputs"),
        "output_leaves": [
            {"result": v} if is_tensor else {"constant": encode_constant(v, "an output")} for is_tensor, v in signature.outputs
        ],
        "parameters": _parameters_to_data(signature.parameters),
        "guards": list(signature.guards),
    }


def signature_from_data(data: Any, weights: dict[str, Tensor]) -> Signature:
    """The signature; its parameters, buffers and constants are ``weights``'.  PackageError if it does not fit together."""
    try:
        return _read(data, weights)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        raise PackageError(f"its signature is damaged: {type(error).__name__}: {error}") from error


def _read(data: Any, weights: dict[str, Tensor]) -> Signature:
    arguments = tuple(_argument(a, weights) for a in data["arguments"])
    results = tuple(_result(r, arguments) for r in data["results"])
    outs = [r for r in results if r.kind == "output"]
    views = tuple(_view(v, arguments, outs) for v in data["views"])
    inputs, outputs = decode_tree(data["inputs"], plain=True), decode_tree(data["outputs"])
    leaves = tuple((True, _index(v["argument"], arguments)) if "argument" in v else (False, decode_constant(v["constant"])) for v in data["leaves"])
    made = [*outs, *views]
    output_leaves = tuple((True, _index(v["result"], made)) if "result" in v else (False, decode_constant(v["constant"])) for v in data["output_leaves"])
    names = tuple(_text(n) for n in data["leaf_names"])
    given = [i for is_tensor, i in leaves if is_tensor]
    if sorted(given) != [i for i, a in enumerate(arguments) if a.kind == "input"]:
        raise ValueError("its leaves are not its inputs")
    if not (len(leaves) == len(names) == inputs.num_leaves and len(output_leaves) == outputs.num_leaves):
        raise ValueError("its nests have other numbers of leaves than it lists")
    if tree_kinds(inputs) != (tuple, (tuple, dict)):
        raise ValueError("its inputs are not arguments by position and by name")
    guards = tuple(check_guard(g) for g in data["guards"])
    parameters = _parameters_from_data(data["parameters"])
    return Signature(arguments, results, leaves, names, inputs, output_leaves, outputs, parameters, guards, views)


def tree_kinds(spec: Any) -> tuple:
    """(the structure's type, its parts' types)."""
    children = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    return spec.type, tuple(c.type for c in children)


def _encode(part: Argument | Result | View) -> dict[str, Any]:
    """A part of a signature, but for where an argument's tensor is held."""
    held = {f.name: getattr(part, f.name) for f in fields(part) if f.name not in ("table", "key")}
    held = {name: v for name, v in held.items() if name not in _LATER or v is not None}
    return {name: encode_constant(v, name)["dtype"] if isinstance(v, torch.dtype) else to_data(v) for name, v in held.items()}


@cache
def _readers(class_: type) -> dict[str, Callable[[Any, str], Any]]:
    hints = typing.get_type_hints(class_, localns={"Size": Size})
    return {f.name: _dtype if hints[f.name] is torch.dtype else reader(hints[f.name]) for f in fields(class_) if f.name not in ("table", "key")}


def _decode(class_: type, data: dict[str, Any], **held: Any) -> Any:
    known = {name: read for name, read in _readers(class_).items() if name in data or name not in _LATER}
    return class_(**{name: read(data[name], name) for name, read in known.items()}, **held)


def _argument(data: Any, weights: dict[str, Tensor]) -> Argument:
    made = _decode(Argument, data)
    if made.kind not in _KINDS:
        raise ValueError(f"an argument is of kind {made.kind!r:.40}")
    if made.order is not None and sorted(made.order) != list(range(len(made.shape))):
        raise ValueError(f"the order {made.order} of {len(made.shape)} dimensions")
    if made.kind == "input":
        return made
    key = _text(data["weight"])
    if key not in weights:
        raise ValueError(f"it wants a tensor {key!r}, which is not there")
    found = weights[key]
    if tuple(found.shape) != made.outer_shape or found.dtype is not made.dtype:
        raise ValueError(f"tensor {key!r} is {tuple(found.shape)} {found.dtype}, expected {made.outer_shape} {made.dtype}")
    return _decode(Argument, data, table=weights, key=key)


def _result(data: Any, arguments: tuple[Argument, ...]) -> Result:
    made = _decode(Result, data)
    if made.kind not in ("output", "mutation") or (made.kind == "mutation" and not 0 <= made.target < len(arguments)):
        raise ValueError(f"a result is of kind {made.kind!r:.40} for argument {made.target!r:.20}")
    if made.strides is not None:
        _check_strides(made.shape, made.strides)
    return made


def _view(data: Any, arguments: tuple[Argument, ...], outs: list[Result]) -> View:
    """A view; that it lies in its tensor's memory is checked at the call."""
    made = _decode(View, data)
    if (made.argument >= 0) == (made.result >= 0):
        raise ValueError("a view is of an argument and of a result, or of neither")
    _index(max(made.argument, made.result), arguments if made.argument >= 0 else outs)
    _check_strides(made.shape, made.strides)
    return made


def _check_strides(shape: tuple, strides: tuple) -> None:
    if len(shape) != len(strides) or any(type(s) is not int or s < 0 for s in (*shape, *strides)):
        raise ValueError(f"strides {strides} of shape {shape}")


def _dtype(name: Any, where: str) -> torch.dtype:
    return decode_constant({"dtype": name})


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"expected a name, got {value!r:.40}")
    return value


def _index(value: Any, of: Any) -> int:
    if type(value) is not int or not 0 <= value < len(of):
        raise IndexError(f"number {value!r:.20} of {len(of)}")
    return value


def _parameters_to_data(parameters: inspect.Signature | None) -> Any:
    if parameters is None:
        return None
    return [{"name": p.name, "kind": p.kind.name, "optional": p.default is not p.empty} for p in parameters.parameters.values()]


def _parameters_from_data(data: Any) -> inspect.Signature | None:
    """The model's parameters; which value an absent one has is in the leaves, so ``...`` stands for every default."""
    if data is None:
        return None
    return inspect.Signature([
        inspect.Parameter(p["name"], inspect._ParameterKind[p["kind"]], default=... if p["optional"] else inspect.Parameter.empty) for p in data
    ])


_GUARD_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Name, ast.Load, ast.Constant, ast.Call,
)


def check_guard(text: Any) -> str:
    """A condition on sizes, which is a Python expression and so must hold nothing but arithmetic, min and max of symbols."""
    try:
        tree = ast.parse(_text(text) if len(text) <= _MOST_GUARD else "", mode="eval")
    except SyntaxError as error:
        raise ValueError("a guard is no expression") from error
    for node in ast.walk(tree):
        fine = isinstance(node, _GUARD_NODES)
        if isinstance(node, ast.Constant):
            fine = type(node.value) in (int, bool)
        elif isinstance(node, ast.Call):
            fine = isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "abs") and not node.keywords
        elif isinstance(node, ast.Name):
            fine = re.fullmatch(r"s\d+|min|max|abs", node.id, re.ASCII) is not None
        if not fine:
            raise ValueError(f"a guard holds {type(node).__name__}, which is no arithmetic of sizes")
    return text
