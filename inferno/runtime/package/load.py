"""Load a package: check it, and make a CompiledModule of it that runs its launch plan by the interpreter.

Needs neither torch-mlir nor llvmlite.  A file is not trusted: every checksum, number and name in it is held against the others
before anything is made of it.
"""

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import safetensors
import torch
from torch import Tensor

from inferno.capture import Signature
from inferno.errors import InfernoError, OptionError, PackageError
from inferno.runtime.device import target_of
from inferno.runtime.elements import DTYPES
from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.executables import runs
from inferno.runtime.module import CompiledModule
from inferno.runtime.package.save import FORMAT, PROGRAM, VERSION, digest
from inferno.runtime.package.weights import OURS, held_by, hold
from inferno.runtime.plan.complex_numbers import of_numbers
from inferno.runtime.plan.plan import Launch, Plan, Preparation
from inferno.runtime.plan.data import check_plan, plan_from_dict, preparation_from_data
from inferno.runtime.program import Program
from inferno.runtime.package.signature_data import signature_from_data
from inferno.target import TARGETS, Target
from inferno.targets.resources import Resources

_READERS = 8  # threads that read and check tensors: SHA-256 goes at 1.5 GB/s on one core, disks and links are faster


def load(path: str | os.PathLike, device: torch.device | str | None = None, cuda_graphs: bool = False) -> CompiledModule:
    """The compiled module of a package, with its weights on ``device``: by default the current CUDA device.  ``cuda_graphs`` as
    ``inferno.compile`` has it.

    With a device that is no GPU, ``ir()`` and ``explain()`` work and calls raise a LaunchError.  Named tuples and dataclasses
    among the inputs are tuples and dictionaries here; among the outputs dataclasses are ``Record``s.

    PackageError if the file is damaged, of a newer version or made for another GPU.  Nothing in it is run on the host.
    """
    if device is None and torch.cuda.is_available():
        device = "cuda"
    try:
        device = device if device is None else torch.device(device)
    except RuntimeError as error:
        raise OptionError(f"device: {str(error).splitlines()[0]}") from error
    if device is not None and device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if not isinstance(path, (str, os.PathLike)):
        raise PackageError(f"path: expected the path of a package, got {path!r:.100}")
    if not os.path.isfile(path):
        raise PackageError(f"{path}: {'it is a folder, and a package is a file' if os.path.isdir(path) else 'No such file'}")
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            if device is None:
                raise PackageError("there is no GPU here; with device='cpu' a package can be looked at by ir() and explain()")
            return _load(file, device, cuda_graphs)
    except (PackageError, OSError) as error:
        raise PackageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    except safetensors.SafetensorError as error:
        raise PackageError(f"{path}: it is no package, or is damaged: {error}") from error
    except InfernoError as error:
        raise PackageError(f"{path}: it is damaged: {error}") from error


def _load(file: Any, device: torch.device, cuda_graphs: bool) -> CompiledModule:
    content = _content(file)
    target = _target(content["target"])
    if device.type == "cuda" and not runs(target, target_of(device)):
        raise PackageError(
            f"it was compiled for {target.name}, and {device} ({torch.cuda.get_device_name(device)}) is {target_of(device).name}; "
            f"compile the model for this one"
        )
    listed = content["tensors"]
    if type(listed) is not dict or set(file.keys()) != {*listed, PROGRAM}:
        raise PackageError("it is damaged: its tensors are not those that it lists")
    weights, blobs = _read_tensors(file, listed, device)
    try:
        for name, strides in content["strides"].items():
            weights[name] = _strided(weights[name], strides)
        program = _build(content, target, weights, blobs)
        model, places = hold(content["state"], weights)
        program = replace(program, signature=held_by(program.signature, places))
        return CompiledModule(program, device, float(content["seconds"]), interpret=True, cuda_graphs=cuda_graphs).attach(model, None)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PackageError(f"it is damaged: {type(error).__name__}: {error}") from error


def _content(file: Any) -> dict[str, Any]:
    """The JSON of ``program``, once the version and the checksum are right."""
    metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT or not metadata.get("version", "").isdecimal():
        raise PackageError("it is no Inferno package")
    version = int(metadata["version"][:9])
    if version > VERSION:
        raise PackageError(f"it has version {version} of the format, and this Inferno reads up to {VERSION}; update Inferno")
    if PROGRAM not in file.keys():
        raise PackageError("it is damaged: there is no program in it")
    tensor = file.get_tensor(PROGRAM)
    if tensor.dtype is not torch.uint8 or digest(tensor) != metadata.get("sha256"):
        raise PackageError("it is damaged: its program has another checksum")
    try:
        content = json.loads(bytes(tensor.numpy()))
    except (ValueError, RecursionError) as error:
        raise PackageError(f"it is damaged: its program is not JSON: {error}") from error
    needed = {"target", "plan", "signature", "kernels", "constants", "stages", "seconds", "state", "strides", "tensors"}
    if type(content) is not dict or needed - content.keys():
        raise PackageError("it is damaged: its program is not whole")
    return content


def _target(data: Any) -> Target:
    name = data.get("name") if type(data) is dict else None
    if type(name) is not str or name not in TARGETS or TARGETS[name].kind != "nvptx":
        raise PackageError(f"it was compiled for {name!r:.40}, which this Inferno does not know; it knows {', '.join(TARGETS)}")
    return TARGETS[name]


def _read_tensors(file: Any, listed: dict[str, Any], device: torch.device) -> tuple[dict[str, Tensor], dict[str, bytes]]:
    """The weights on the device, and the bytes of ours; each against its checksum."""

    def read(name: str) -> Tensor | bytes:
        tensor = file.get_tensor(name)
        if digest(tensor) != listed[name]:
            raise PackageError(f"it is damaged: {name} has another checksum")
        if name.startswith(OURS):
            return bytes(tensor.numpy())
        return tensor.clone() if device.type == "cpu" else tensor.to(device)

    with ThreadPoolExecutor(_READERS) as threads:
        found = dict(zip(listed, threads.map(read, listed)))
    weights = {n: t for n, t in found.items() if not n.startswith(OURS)}
    return weights, {n.removeprefix(OURS): b for n, b in found.items() if n.startswith(OURS)}


def _strided(tensor: Tensor, strides: Any) -> Tensor:
    """The tensor with strides that are a dense order of its dimensions."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, strides), key=lambda d: (d[1], d[0])):
        if type(stride) is not int or (stride != expected and size > 1):
            raise PackageError(f"it is damaged: a tensor of shape {tuple(tensor.shape)} has strides {strides!r:.60}")
        expected *= size
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _build(content: dict[str, Any], target: Target, weights: dict[str, Tensor], blobs: dict[str, bytes]) -> Program:
    plan = plan_from_dict(content["plan"])
    check_plan(plan)
    preparation = preparation_from_data(content["preparation"]) if content.get("preparation") is not None else None
    signature = signature_from_data(content["signature"], weights)
    constants = [(c["element"], tuple(c["shape"]), blobs[f"constants/{i}"]) for i, c in enumerate(content["constants"])]
    kernels = [_kernel_from_data(k, i, blobs) for i, k in enumerate(content["kernels"])]
    _check_fit(plan, signature, constants, kernels, preparation)
    stages = {_stage(s): blobs[f"stages/{s}"].decode() for s in content["stages"]}
    return Program(signature, target, stages, {k.name: k for k in kernels}, constants, [], plan, preparation)


def _stage(name: Any) -> str:
    if name not in ("torch", "linalg", "fused", "scheduled", "gpu"):
        raise ValueError(f"stage {name!r:.40}")
    return name


def _kernel_from_data(data: Any, number: int, blobs: dict[str, bytes]) -> Kernel:
    texts = {n: data[n] for n in ("name", "code", "schedule", "note")}
    numbers = {n: data[n] for n in ("flops", "bytes")}
    if any(type(t) is not str for t in texts.values()) or any(type(n) is not int for n in numbers.values()):
        raise ValueError(f"kernel {number} is described by other things than names and numbers")
    resources = {n: Resources(**{f: int(r[f]) for f in ("registers", "shared", "stack", "spills")}) for n, r in data["resources"].items()}
    return Kernel(
        module="", llvm=blobs.get(f"llvm/{number}", b"").decode(), ptx=blobs.get(f"ptx/{number}", b"").decode(), cubin=blobs.get(f"cubin/{number}"),
        resources=resources, seconds=float(data["seconds"]), **texts, **numbers,
    )


def _check_fit(plan: Plan, signature: Signature, constants: list, kernels: Iterable[Kernel], preparation: Preparation | None) -> None:
    """Whether the plan runs on what the signature, the constants and the preparation give, with the kernels that there are."""
    wanted = [(a.shape, a.dtype) for a in signature.arguments]
    for element, shape, data in constants:
        dtype = DTYPES[element]
        if torch.Size(shape).numel() * dtype.itemsize != len(data):
            raise PackageError(f"a constant of {shape} {element} has {len(data)} bytes")
        wanted.append((shape, dtype))
    if preparation is not None:
        _check_preparation(preparation, wanted)
        wanted += [(o.shape, DTYPES[o.element]) for o in preparation.plan.outputs]
    _same([(b.shape, b.element) for b in _of_callers(plan.arguments, wanted)], wanted, "arguments")
    # Where eager has other strides, the plan's result has its dimensions in another order.
    moved = [r.strides is not None for r in signature.results] + [False] * len(plan.outputs)
    order = lambda shape, i: sorted(shape) if moved[i] else shape  # noqa: E731
    results = [(r.shape, r.dtype) for r in signature.results]
    planned = [(order(o.shape, i), o.element) for i, o in enumerate(_of_callers(plan.outputs, results))]
    _same(planned, [(order(shape, i), dtype) for i, (shape, dtype) in enumerate(results)], "results")
    known = {k.code for k in kernels if k.ptx or k.cubin}
    for step in (*plan.steps, *(preparation.plan.steps if preparation is not None else ())):
        if isinstance(step, Launch) and step.kernel.split("::")[0] not in known:
            raise PackageError(f"its plan launches {step.kernel}, which it does not hold")


def _of_callers(planned: tuple, wanted: list[tuple]) -> tuple:
    """The plan's arguments or results, with complex numbers as they are ``wanted``."""
    return tuple(of_numbers(b, dtype) for b, (_, dtype) in zip(planned, wanted)) + planned[len(wanted):]


def _check_preparation(preparation: Preparation, given: list[tuple]) -> None:
    """Whether the preparation runs on those arguments of the program that it names."""
    check_plan(preparation.plan)
    if any(not 0 <= n < len(given) for n in preparation.arguments) or preparation.plan.symbols:
        raise PackageError("its preparation takes arguments that there are not")
    taken = [given[n] for n in preparation.arguments]
    _same([(b.shape, b.element) for b in _of_callers(preparation.plan.arguments, taken)], taken, "prepared arguments")


def _same(planned: list[tuple], wanted: list[tuple], what: str) -> None:
    if len(planned) != len(wanted):
        raise PackageError(f"its plan has {len(planned)} {what}, and its signature {len(wanted)}")
    for i, ((shape, element), (expected, dtype)) in enumerate(zip(planned, wanted)):
        # MLIR's types have no sign, and one of ours may stand for torch's of the same size.
        if tuple(shape) != tuple(expected) or DTYPES[element].itemsize != dtype.itemsize:
            raise PackageError(f"its plan has {what[:-1]} {i} as {shape} {element}, and its signature as {expected} {dtype}")
