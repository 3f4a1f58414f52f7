"""A Python function made for the calls of one program whose sizes vary: the checks of ``CompiledModule.__call__``, unrolled."""

from collections.abc import Callable
from typing import Any

import torch

from inferno.capture import Signature
from inferno.runtime.call.text import begin_call, return_outputs, written_in_place
from inferno.runtime.prepared import Prepared


def make_sized_cpu_call(
    signature: Signature, executable: Any, constants: list[torch.Tensor], slow: Callable, prepared: Prepared | None = None,
) -> Callable | None:
    """The function ``call(*inputs)`` of a SizedCpuExecutable, or None for a program that is called in another way (see ``begin_call``)."""
    written = written_in_place(signature, executable.plan)
    text = begin_call(signature, slow, written, "{}.is_cpu", prepared=prepared)
    if text is None:
        return None
    tensors = ", ".join([*text.values, *(f"constants[{i}]" for i in range(len(constants))), *(["*kept"] if prepared else [])])
    text.scope.update({"run": executable.run_at, "constants": constants})
    text.lines.append(f"    results = run(({''.join(name + ', ' for name in executable.names)}), [{tensors}])")
    fresh = [f"results[{i}]" for i, o in enumerate(executable.plan.outputs) if o.result == i]
    return_outputs(text, signature, written, fresh)
    return text.compile()
