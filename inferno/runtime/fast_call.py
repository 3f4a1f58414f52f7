"""A Python function made for one program's calls: the checks and the launch of ``CompiledModule.__call__``, unrolled.

A small kernel runs in 2 us, and a loop over the arguments with its tuples and lists costs more than that.  The function's
text has one condition for each argument and no loop; whatever it does not expect goes to the general way, which finds the
same answer or the right error.
"""

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import torch

from inferno.capture import Signature
from inferno.runtime.executable import GpuExecutable
from inferno.runtime.host import ERROR

_MOST_ARGUMENTS = 2000  # compiling the text takes 20 us an argument


def make_fast_call(signature: Signature, executable: GpuExecutable, constants: list[torch.Tensor], slow: Callable) -> Callable | None:
    """The function ``call(*inputs)``, or None for a program that is called in another way.

    It takes programs whose inputs are tensors by position and whose results are all new.  ``slow(*inputs)`` is the general way.
    """
    inputs = signature.simple_arity
    if inputs < 1 or len(signature.arguments) > _MOST_ARGUMENTS or any(r.kind != "output" for r in signature.results):
        return None
    if not executable.all_results_are_new:
        return None
    scope: dict[str, Any] = {
        "slow": slow, "Tensor": torch.Tensor, "empty_like": torch.empty_like, "empty": torch.empty, "uint8": torch.uint8,
        "stream": torch._C._cuda_getCurrentRawStream, "current": torch._C._cuda_getDevice, "index": executable.index,
        "device": executable.device, "fail": executable.fail, "native": executable.native, "build": signature.build_output,
        "local": threading.local(), "size": executable.workspace_bytes, "addressof": ctypes.addressof,
    }
    names = [f"x{i}" for i in range(inputs)]
    lines = [f"def call({', '.join(names)}):"]
    values = dict(zip(signature.input_places, names))
    for i, table, key in signature.held:
        values[i] = f"p{i}"
        scope[f"t{i}"] = table
        lines.append(f"    p{i} = t{i}[{key!r}]")
    conditions = ["current() == index"]
    for i, argument in enumerate(signature.arguments):
        name = values[i]
        scope[f"s{i}"], scope[f"d{i}"] = torch.Size(argument.shape), argument.dtype
        parts = [
            f"isinstance({name}, Tensor)", f"{name}.shape == s{i}", f"{name}.dtype is d{i}", f"{name}.device == device", f"{name}.is_contiguous()",
        ]
        conditions += [*parts, f"not {name}.requires_grad"] if argument.kind == "input" else parts
    lines.append(f"    if not ({' and '.join(conditions)}):")
    lines.append(f"        return slow({', '.join(names)})")
    addresses = [f"a{i}" for i in range(len(signature.arguments))]
    lines += [f"    a{i} = {values[i]}.data_ptr()" for i in range(len(signature.arguments))]
    if addresses:
        lines.append(f"    if ({' | '.join(addresses)}) & 15:")
        lines.append(f"        return slow({', '.join(names)})")
    for i, tensor in enumerate(constants):
        scope[f"c{i}"] = tensor.data_ptr()
    scope["constants"] = constants  # kept alive
    results = [f"y{i}" for i in range(len(executable.templates))]
    for i, template in enumerate(executable.templates):
        scope[f"like{i}"] = template
        lines.append(f"    y{i} = empty_like(like{i})")
    if executable.workspace_bytes:
        lines.append("    workspace = empty(size, dtype=uint8, device=device)")
    words = [
        "base + 8", "base", "0", "0", "stream(index)", "workspace.data_ptr()" if executable.workspace_bytes else "0", *addresses,
        *(f"c{i}" for i in range(len(constants))), *(f"{y}.data_ptr()" for y in results),
    ]
    layout = struct.Struct(f"{len(words)}q")
    scope["pack"], scope["Words"] = layout.pack_into, ctypes.c_int64 * len(words)
    lines += [
        "    try:",
        "        state, base = local.state",
        "    except AttributeError:",
        "        state = Words()",
        "        local.state = state, addressof(state)",
        "        base = addressof(state)",
        f"    pack(state, 0, {', '.join(words)})",
        "    native(base)",
        f"    if state[{ERROR}]:",
        "        fail(state)",
        f"    return {results[0]}" if signature.single_output else f"    return build(({', '.join(results)},))",
    ]
    exec(compile("\n".join(lines), "<inferno fast call>", "exec"), scope)
    return scope["call"]
