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

from inferno.errors import PackageError
from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.plan.plan import Launch
from inferno.runtime.program import Program
from inferno.runtime.module import CompiledModule
from inferno.runtime.package.weights import NONPERSISTENT, OURS, Weights, collect
from inferno.runtime.plain_data import to_data
from inferno.runtime.package.signature_data import signature_to_data

FORMAT = "inferno"
# 1 has no preparation of frozen weights, 2 no inputs in another order than row-major, 3 no launches that are known as copies, 4 no cooperative ones, 5 no
# inputs that are parts of larger tensors, 6 no results of varying sizes that may take an argument's place and no copies of such sizes, 7 no buffers that
# are not persistent.
VERSION = 8
PROGRAM = f"{OURS}program"


def save(compiled: CompiledModule, path: str | os.PathLike, ir: bool = True) -> None:
    """Write ``compiled`` and the current values of its weights to ``path``, whole or not at all.

    ``ir``: the text of the stages goes along, for ``ir()`` where it is loaded.  Tied weights are stored once.

    PackageError for the cpu target, whose native code a file must not bring along, and for what has no form as data.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise PackageError(f"path: expected a path to write the package to, got {path!r:.100}")
    program, path = compiled.program, Path(path)
    if program.target.kind == "cpu":
        raise PackageError(
            "a program for the cpu target has no package: loading one would run the file's native code on the host; compile where it "
            "runs, or for a GPU by target="
        )
    weights = collect(program.signature, compiled._model)
    tensors = dict(weights.tensors)
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
        "preparation": to_data(program.preparation) if program.preparation is not None else None,
        "signature": signature_to_data(program.signature, weights.names),
        "kernels": kernels,
        "constants": [{"element": element, "shape": list(shape)} for element, shape, _ in program.constants],
        "stages": list(program.stages) if ir else [],
        "seconds": compiled.compile_seconds,
        "strides": weights.strides,
        "state": weights.state,
        "tensors": {name: digest(tensor) for name, tensor in tensors.items()},
    }
    text = json.dumps(content, allow_nan=False).encode()
    tensors[PROGRAM] = _bytes_tensor(text)
    metadata = {"format": FORMAT, "version": str(_version(program, weights)), "sha256": hashlib.sha256(text).hexdigest()}
    _write(path, tensors, metadata)


def _version(program: Program, weights: Weights) -> int:
    """The first version that knows all that there is."""
    if any(kind == NONPERSISTENT for _, kind, _ in weights.state):
        return 8
    plan = program.launch_plan()
    if plan.symbols and (any(o.overwrites for o in plan.outputs) or any(isinstance(s, Launch) and s.copies for s in plan.steps)):
        return 7
    if any(a.part is not None for a in program.signature.arguments):
        return 6
    launches = [s for s in plan.steps if isinstance(s, Launch)]
    if any(s.cooperative for s in launches):
        return 5
    if any(s.copies for s in launches):
        return 4
    return 3 if any(a.order is not None for a in program.signature.arguments) else 1 if program.preparation is None else 2


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
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8, device="cpu")


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
        raise PackageError(f"{path}: it could not be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
