"""The arguments and results of an exported program: which are the user's, and where the tensors of the others are held."""

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from inferno.capture.as_module import Function
from inferno.capture.nodes import unsupported
from inferno.capture.signature import Argument, Result
from inferno.capture.symbols import SymbolTable
from inferno.errors import CaptureError


@dataclass(frozen=True, eq=False)
class Inputs:
    """A program's arguments; ``leaves`` and their ``names`` as in Signature; ``index`` by the name of the graph's input."""

    arguments: tuple[Argument, ...]
    leaves: tuple[tuple[bool, Any], ...]
    names: tuple[str, ...]
    index: dict[str, int]


def inputs_of(program: ExportedProgram, module: torch.nn.Module | None, names: list[str], symbols: SymbolTable) -> Inputs:
    """What a program takes, in order; ``names`` are the user's of its tensors and numbers.  An error says which argument is neither."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    arguments: list[Argument] = []
    leaves: list[tuple[bool, Any]] = []
    index: dict[str, int] = {}
    for spec in program.graph_signature.input_specs:
        if isinstance(spec.arg, ConstantArgument):
            leaves.append((False, spec.arg.value))
            continue
        if not isinstance(spec.arg, TensorArgument):
            raise _not_a_tensor(program, spec)
        value = values[spec.arg.name]
        index[spec.arg.name] = len(arguments)
        if spec.kind is InputKind.USER_INPUT:
            name, kind, held, key = names[len(leaves)], "input", None, ""
            leaves.append((True, len(arguments)))
        else:
            name, kind, held, key = _state(spec, program, module)
        arguments.append(Argument(name, kind, symbols.shape(value), value.dtype, held, key))
    return Inputs(tuple(arguments), tuple(leaves), tuple(names), index)


def results_of(program: ExportedProgram, inputs: Inputs, symbols: SymbolTable) -> tuple[tuple[Result, ...], tuple[tuple[bool, Any], ...]]:
    """The results, and the leaves of the output."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    by_target = {a.name: i for i, a in enumerate(inputs.arguments) if a.kind != "input"}
    results: list[Result] = []
    outputs: list[tuple[bool, Any]] = []
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, ConstantArgument):
            outputs.append((False, spec.arg.value))
            continue
        value = values[spec.arg.name]
        if not isinstance(value, torch.Tensor):
            raise CaptureError(f"output {spec.arg.name} is a number that depends on the inputs; return it as a tensor")
        shape, dtype = symbols.shape(value), value.dtype
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append((True, sum(r.kind == "output" for r in results)))
            results.append(Result("output", -1, shape, dtype))
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", None)):
            target = by_target[spec.target] if spec.target in by_target else inputs.index[spec.target]
            results.append(Result("mutation", target, shape, dtype))
        else:
            raise CaptureError(f"output {spec.arg.name} is a {spec.kind.name.lower()}, which is not understood")
    return tuple(results), tuple(outputs)


def _not_a_tensor(program: ExportedProgram, spec: Any) -> Exception:
    """The error for an argument of another kind; a token stands for an operation with a side effect."""
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) == "with_effects":
            # Factorizations check their result by an operation of their own: the user wrote what it checks.
            checked = next((n for n in node.all_input_nodes if n.op == "call_function"), node)
            while checked.target is operator.getitem:
                checked = checked.args[0]
            written = node.args[1] if checked is node else checked.meta.get("original_aten")  # of which it may be a part
            return unsupported(checked, "it has a side effect", target=written)
    return CaptureError(f"input {spec.arg.name} is a {type(spec.arg).__name__}; only tensors and constants are understood")


def _state(spec: Any, program: ExportedProgram, module: torch.nn.Module | None) -> tuple[str, str, dict, str]:
    """Name, kind, and where the tensor of a parameter, buffer or constant is held."""
    kind = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}.get(spec.kind, "constant")
    if kind != "constant" and module is not None:
        path, _, key = spec.target.rpartition(".")
        try:
            owner = module.get_submodule(path)
        except AttributeError as error:  # torch.export takes tensors of other classes apart, into parametrizations of its own
            raise CaptureError(f"{spec.target} is a part of a {kind}, which is a tensor of another class") from error
        held = owner._parameters if key in owner._parameters else owner._buffers
        if key in held:
            return spec.target, kind, held, key
    held = program.state_dict if spec.target in program.state_dict else program.constants
    if spec.target not in held or not isinstance(held[spec.target], torch.Tensor):
        raise CaptureError(f"{spec.target} is a {spec.kind.name.lower()}, which is not understood")
    return _original(spec.target, held[spec.target], module) if kind == "constant" else (spec.target, kind, held, spec.target)


def _original(target: str, lifted: torch.Tensor, module: torch.nn.Module | None) -> tuple[str, str, dict, str]:
    """Where the user holds a tensor that torch.export found on its own: an attribute of a module, or a name of a function."""
    path, _, key = target.rpartition(".")
    try:
        attributes = module.get_submodule(path).__dict__ if module is not None else {}
    except AttributeError:
        attributes = {}
    if isinstance(attributes.get(key), torch.Tensor):
        return target, "constant", attributes, key
    if isinstance(module, Function):
        for name, tensor in module.tensors.items():
            same = tensor.data_ptr() == lifted.data_ptr() and tensor.shape == lifted.shape and tensor.stride() == lifted.stride()
            if same and lifted.numel() and tensor.dtype == lifted.dtype:
                return name, "constant", module.tensors, name
    return target, "constant", {target: lifted}, target
