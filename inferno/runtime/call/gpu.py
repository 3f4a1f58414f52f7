"""A Python function made for one program's calls: the checks and the launch of ``CompiledModule.__call__``, unrolled.

A small kernel runs in 2 us, and a loop over the arguments with its tuples and lists costs more than that.
"""

import ctypes
import struct
from collections.abc import Callable

import torch

from inferno.capture import Signature
from inferno.runtime.call.text import CallText, begin_call, return_outputs, written_in_place
from inferno.runtime.launch.executable import GpuExecutable
from inferno.runtime.launch.host import ERROR
from inferno.runtime.launch.sized_executable import SizedGpuExecutable
from inferno.runtime.launch.threads import Threads
from inferno.runtime.prepared import Prepared


def make_fast_call(
    signature: Signature, executable: GpuExecutable | SizedGpuExecutable, constants: list[torch.Tensor], slow: Callable,
    prepared: Prepared | None = None,
) -> Callable | None:
    """The function ``call(*inputs)``, or None for a program that is called in another way (see ``begin_call``)."""
    written = written_in_place(signature, executable.plan)
    text = begin_call(signature, slow, written, "{}.device == device", gpu_conditions(prepared), prepared)
    if text is None:
        return None
    results = add_native_call(text, executable, constants)
    return_outputs(text, signature, written, results)
    return text.compile()


def gpu_conditions(prepared: Prepared | None) -> list[str]:
    """The conditions of a fast call that are about no tensor; what is prepared must be told of a capture."""
    return ["current() == index", *(["not capturing()"] if prepared else [])]


def add_native_call(text: CallText, executable: GpuExecutable | SizedGpuExecutable, constants: list[torch.Tensor]) -> list[str]:
    """Add the lines that make the results and launch the kernels; the names of the results.  Sizes that vary are in variables, called as their
    symbols are."""
    lines, scope, addresses = text.lines, text.scope, text.addresses
    scope.update({
        "empty_like": torch.empty_like, "stream": torch._C._cuda_getCurrentRawStream, "capturing": torch.cuda.is_current_stream_capturing,
        "current": torch._C._cuda_getDevice, "index": executable.index, "device": executable.device, "fail": executable.fail,
        "native": executable.native, "local": Threads(executable.context), "addressof": ctypes.addressof,
    })
    for i, tensor in enumerate(constants):
        scope[f"c{i}"] = tensor.data_ptr()
    scope["constants"] = constants  # kept alive
    results = [f"y{i}" for i in range(len(executable.fresh))]
    templates = {"scratch": "workspace", **{f"like{i}": y for i, y in enumerate(results)}}
    if isinstance(executable, SizedGpuExecutable):
        sizes = executable.names
        scope["known"], scope["make"] = executable.kept, executable.templates_at
        lines += [
            f"    sizes = ({''.join(name + ', ' for name in sizes)})", "    templates = known.get(sizes)",
            "    if templates is None:", "        templates = make(sizes)", f"    {', '.join(templates)}, = templates",
        ]
    else:
        sizes = []
        scope.update(zip(templates, executable.templates))
    if executable.plan.workspace_bytes == 0:
        del templates["scratch"]
    lines += [f"    {tensor} = empty_like({like})" for like, tensor in templates.items()]
    words = [
        "base + 8", "base", "0", "0", "stream(index)", "workspace.data_ptr()" if "scratch" in templates else "0", *addresses,
        *(f"c{i}" for i in range(len(constants))), *(f"r{i}" for i in range(text.prepared)), *(f"{y}.data_ptr()" for y in results), *sizes,
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
    ]
    return results
