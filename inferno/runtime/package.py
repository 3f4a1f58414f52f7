"""Packages: a compiled program and its weights in one file, which loads without a compiler.

A package is a safetensors file.  Its tensors are the weights under their own names and, under ``__inferno__/``, bytes: each
kernel's cubin and PTX, the text of the stages, and ``program``, which is JSON: the launch plan, the signature, what is known of
the kernels, and the SHA-256 of every other tensor.  The header's metadata has the format's version and the SHA-256 of
``program``.  Nothing in the file is run on the host and nothing in it is a pickle: only the GPU runs its kernels.
"""

import hashlib
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from inferno.capture import Signature
from inferno.errors import PackageError
from inferno.runtime.kernel import Kernel
from inferno.runtime.module import CompiledModule
from inferno.runtime.signature_data import signature_to_data

FORMAT = "inferno"
VERSION = 1
OURS = "__inferno__/"
PROGRAM = f"{OURS}program"


def save(compiled: CompiledModule, path: str | os.PathLike, ir: bool = True) -> None:
    """Write ``compiled`` and the current values of its weights to ``path``, whole or not at all.

    ``ir``: the text of the stages goes along, for ``ir()`` where it is loaded.  Tied weights are stored once.

    PackageError for the cpu target, whose native code a file must not bring along, and for what has no form as data.
    """
    program, path = compiled.program, Path(path)
    if program.target.kind == "cpu":
        raise PackageError(
            "a program for the cpu target has no package: loading one would run the file's native code on the host; compile where it "
            "runs, or for a GPU by target="
        )
    tensors, weights = _weights(program.signature)
    strides = _strides(program.signature, weights)
    blobs: dict[str, bytes] = {}
    kernels = [_kernel_to_data(k, i, blobs) for i, k in enumerate(program.kernels.values())]
    for i, (_, _, data) in enumerate(program.constants):
        blobs[f"constants/{i}"] = data
    if ir:
        for stage in program.stages:
            blobs[f"stages/{stage}"] = program.ir(stage).encode()
        for i, k in enumerate(program.kernels.values()):
            blobs[f"llvm/{i}"] = k.llvm.encode()
    tensors.update({f"{OURS}{name}": _bytes_tensor(data) for name, data in blobs.items()})
    content = {
        "target": asdict(program.target),
        "plan": program.launch_plan().as_dict(),
        "signature": signature_to_data(program.signature, weights),
        "kernels": kernels,
        "constants": [{"element": element, "shape": list(shape)} for element, shape, _ in program.constants],
        "stages": list(program.stages) if ir else [],
        "seconds": compiled.compile_seconds,
        "strides": strides,
        "tensors": {name: digest(tensor) for name, tensor in tensors.items()},
    }
    text = json.dumps(content, allow_nan=False).encode()
    tensors[PROGRAM] = _bytes_tensor(text)
    metadata = {"format": FORMAT, "version": str(VERSION), "sha256": hashlib.sha256(text).hexdigest()}
    _write(path, tensors, metadata)


def _weights(signature: Signature) -> tuple[dict[str, Tensor], dict[int, str]]:
    """The tensors to store, on the CPU, and the name of each argument's; equal views of one memory are one tensor."""
    tensors: dict[str, Tensor] = {}
    names: dict[int, str] = {}
    by_memory: dict[tuple, str] = {}
    storages: dict[int, set[str]] = {}
    for i, argument in enumerate(signature.arguments):
        if argument.kind == "input":
            continue
        tensor = argument.table[argument.key].detach()
        if tuple(tensor.shape) != tuple(argument.shape) or tensor.dtype is not argument.dtype:
            raise PackageError(
                f"{argument.kind} {argument.name}: compiled for {tuple(argument.shape)} {argument.dtype}, it is now {tuple(tensor.shape)} "
                f"{tensor.dtype}; compile the model again"
            )
        memory = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.stride())
        key = (*memory, tensor.shape, tensor.dtype) if tensor.numel() else ("empty", i)
        if key not in by_memory:
            name = argument.name
            while name in tensors or name.startswith(OURS):
                name += "_"
            by_memory[key], tensors[name] = name, tensor.cpu().contiguous().clone()
        names[i] = by_memory[key]
        if tensor.numel():
            storages.setdefault(memory[0], set()).add(names[i])
    for result in signature.results:
        if result.kind == "mutation" and result.target in names:
            for held in storages.values():
                if names[result.target] in held and len(held) > 1:
                    raise PackageError(
                        f"{names[result.target]} is written by the model and shares memory with {', '.join(sorted(held - {names[result.target]}))}; "
                        f"a package keeps no tensors that overlap in part: clone one of them"
                    )
    return tensors, names


def _strides(signature: Signature, names: dict[int, str]) -> dict[str, list[int]]:
    """Strides of the tensors that an output is a view of, where they are not row-major: the view's are counted in them."""
    found = {}
    for i in sorted({v.argument for v in signature.views} & names.keys()):
        argument = signature.arguments[i]
        tensor = argument.table[argument.key]
        if not tensor.is_contiguous():
            if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
                raise PackageError(f"{names[i]}: an output is a view of it, and its memory has gaps or overlaps; make it contiguous")
            found[names[i]] = list(tensor.stride())
    return found


def _kernel_to_data(kernel: Kernel, number: int, blobs: dict[str, bytes]) -> dict[str, Any]:
    """What a package says of a kernel; its code goes to ``blobs``."""
    if kernel.cubin:
        blobs[f"cubin/{number}"] = kernel.cubin
    if kernel.ptx:
        blobs[f"ptx/{number}"] = kernel.ptx.encode()
    return {
        "name": kernel.name, "code": kernel.code, "schedule": kernel.schedule, "flops": kernel.flops, "bytes": kernel.bytes,
        "note": kernel.note, "seconds": kernel.seconds, "resources": {n: asdict(r) for n, r in kernel.resources.items()},
    }


def _bytes_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def digest(tensor: Tensor) -> str:
    """SHA-256 of the bytes of a tensor on the CPU."""
    return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy()).hexdigest()


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Under another name first, and then moved into place: whoever looks sees the old file or the whole new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            mode = os.fstat(file.fileno()).st_mode
        safetensors.torch.save_file(tensors, temporary, metadata)  # which makes it readable by the owner alone
        os.chmod(temporary, mode)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, KeyError, safetensors.SafetensorError) as error:
        raise PackageError(f"{path}: it could not be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
