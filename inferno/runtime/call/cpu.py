"""A Python function made for one program's calls on the CPU: the checks of ``CompiledModule.__call__`` and the call of the native
code, unrolled.

Adding two matrices of 64x64 takes 0.4 us, and the general way around it 4 us.
"""

import struct
from collections.abc import Callable

import torch

from inferno.capture import Signature
from inferno.runtime.call.text import CallText, begin_call, return_outputs, written_in_place
from inferno.runtime.launch.cpu import CpuExecutable
from inferno.runtime.launch.native import BASES, FIRST, REPORT
from inferno.runtime.prepared import Prepared


def make_fast_cpu_call(
    signature: Signature, executable: CpuExecutable, constants: list[torch.Tensor], slow: Callable, prepared: Prepared | None = None,
) -> Callable | None:
    """The function ``call(*inputs)``, or None for a program that is called in another way (see ``begin_call``)."""
    written = written_in_place(signature, executable.plan)
    text = begin_call(signature, slow, written, "{}.is_cpu", prepared=prepared)
    if text is None:
        return None
    results = add_native_call(text, executable, constants)
    if results is None:
        tensors = ", ".join([*text.values, *(f"constants[{i}]" for i in range(len(constants))), *(["*kept"] if prepared else [])])
        text.scope.update({"run": executable.run, "constants": constants})
        text.lines.append(f"    results = run([{tensors}])")
        results = [f"results[{i}]" for i, r in enumerate(signature.results) if r.kind == "output"]
    return_outputs(text, signature, written, results)
    return text.compile()


def add_native_call(text: CallText, executable: CpuExecutable, constants: list[torch.Tensor]) -> list[str] | None:
    """Add the lines that make the results and call the native code; the names of the results.  None, and no lines, where one
    call of it does not do all."""
    segment = executable.only_segment
    if segment is None:
        return None
    scope, addresses = text.scope, text.addresses
    scope["constants"] = constants  # kept alive
    first, rows = segment
    templates = executable.new_results()
    results = [f"y{i}" for i in range(len(templates))]
    scope.update({f"like{i}": t for i, t in enumerate(templates)})
    scope.update({f"c{i}": t.data_ptr() for i, t in enumerate(constants)})
    words = [
        str(first), str(rows), "threads()" if executable.shares else "1", "0", *addresses, *(f"c{i}" for i in range(len(constants))),
        *(f"r{i}" for i in range(text.prepared)),
        *(f"{y}.data_ptr()" for y in results),
    ]
    assert len(words) == BASES - FIRST + len(addresses) + len(constants) + text.prepared + len(results)
    scope.update({
        "pack": struct.Struct(f"{len(words)}q").pack_into, "native": executable.native, "pop": executable.contexts.pop,
        "free": executable.contexts.append, "new_context": executable.new_context, "empty_like": torch.empty_like, "threads": torch.get_num_threads,
        "fail": executable.fail,
    })
    text.lines.extend([
        *(f"    {y} = empty_like(like{i})" for i, y in enumerate(results)),
        "    try:",
        "        context = pop()",
        "    except IndexError:",
        "        context = new_context()",
        f"    pack(context.state, {8 * FIRST}, {', '.join(words)})",
        "    native(context.base)",
        *([f"    if context.state[{REPORT}]:", "        fail(context.state)"] if executable.reports else []),
        "    free(context)",
    ])
    return results
