"""A Python function made for one program's calls on the CPU: the checks of ``CompiledModule.__call__`` and the call of the native
code, unrolled.

Adding two matrices of 64x64 takes 0.4 us, and the general way around it 4 us.  The function's text has one condition for each
argument and no loop; whatever it does not expect goes to the general way, which finds the same answer or the right error.
"""

import struct
from collections.abc import Callable
from typing import Any

import torch

from inferno.capture import Signature
from inferno.runtime.cpu import CpuExecutable
from inferno.runtime.native import BASES, FIRST

_MOST_ARGUMENTS = 2000  # compiling the text takes 20 us an argument


def make_fast_cpu_call(signature: Signature, executable: CpuExecutable, constants: list[torch.Tensor], slow: Callable) -> Callable | None:
    """The function ``call(*inputs)``, or None for a program that is called in another way.

    It takes programs whose inputs are tensors by position and whose results are all new.  ``slow(*inputs)`` is the general way.
    """
    inputs = signature.simple_arity
    if inputs < 1 or len(signature.arguments) > _MOST_ARGUMENTS or any(r.kind != "output" for r in signature.results):
        return None
    if not executable.all_results_are_new:
        return None
    scope: dict[str, Any] = {"slow": slow, "Tensor": torch.Tensor, "build": signature.build_output, "constants": constants}
    names = [f"x{i}" for i in range(inputs)]
    lines = [f"def call({', '.join(names)}):"]
    values = dict(zip(signature.input_places, names))
    for i, table, key in signature.held:
        values[i], scope[f"t{i}"] = f"p{i}", table
        lines.append(f"    p{i} = t{i}[{key!r}]")
    conditions = []
    for i, argument in enumerate(signature.arguments):
        name = values[i]
        scope[f"s{i}"], scope[f"d{i}"] = torch.Size(argument.shape), argument.dtype
        conditions += [f"isinstance({name}, Tensor)", f"{name}.is_cpu", f"{name}.shape == s{i}", f"{name}.dtype is d{i}", f"{name}.is_contiguous()"]
        if argument.kind == "input":
            conditions.append(f"not {name}.requires_grad")
    addresses = [f"a{i}" for i in range(len(signature.arguments))]
    refuse = f"        return slow({', '.join(names)})"
    lines += [f"    if not ({' and '.join(conditions)}):", refuse]
    lines += [f"    {a} = {values[i]}.data_ptr()" for i, a in enumerate(addresses)]
    lines += [f"    if ({' | '.join(addresses)}) & 15:", refuse]
    segment = executable.only_segment
    if segment is None:
        tensors = ", ".join([*(values[i] for i in range(len(addresses))), *(f"constants[{i}]" for i in range(len(constants)))])
        scope["run"] = executable.run
        lines += [f"    results = run([{tensors}])", f"    return {'results[0]' if signature.single_output else 'build(results)'}"]
    else:
        lines += _native(signature, executable, constants, segment, addresses, scope)
    exec(compile("\n".join(lines), "<inferno fast call>", "exec"), scope)
    return scope["call"]


def _native(signature: Signature, executable: CpuExecutable, constants: list[torch.Tensor], segment: tuple[int, int],
            addresses: list[str], scope: dict[str, Any]) -> list[str]:
    """The end of the function where one call of the native code does all."""
    first, rows = segment
    templates = executable.new_results()
    results = [f"y{i}" for i in range(len(templates))]
    scope.update({f"like{i}": t for i, t in enumerate(templates)})
    scope.update({f"c{i}": t.data_ptr() for i, t in enumerate(constants)})
    words = [
        str(first), str(rows), "threads()" if executable.shares else "1", *addresses, *(f"c{i}" for i in range(len(constants))),
        *(f"{y}.data_ptr()" for y in results),
    ]
    assert len(words) == BASES - FIRST + len(addresses) + len(constants) + len(results)
    scope.update({
        "pack": struct.Struct(f"{len(words)}q").pack_into, "native": executable.native, "pop": executable.contexts.pop,
        "free": executable.contexts.append, "new_context": executable.new_context, "empty_like": torch.empty_like, "threads": torch.get_num_threads,
    })
    return [
        *(f"    {y} = empty_like(like{i})" for i, y in enumerate(results)),
        "    try:",
        "        context = pop()",
        "    except IndexError:",
        "        context = new_context()",
        f"    pack(context.state, {8 * FIRST}, {', '.join(words)})",
        "    native(context.base)",
        "    free(context)",
        f"    return {results[0]}" if signature.single_output else f"    return build([{', '.join(results)}])",
    ]
