"""A Python function made for the calls of one program whose sizes vary: the checks of ``CompiledModule.__call__``, unrolled."""

from collections.abc import Callable
from typing import Any

import torch

from inferno.capture import Signature
from inferno.runtime.call.text import begin_call, written_in_place
from inferno.runtime.prepared import Prepared


def make_sized_call(
    signature: Signature, executable: Any, constants: list[torch.Tensor], slow: Callable, prepared: Prepared | None = None,
) -> Callable | None:
    """The function ``call(*inputs)``, or None for a program that is called in another way (see ``begin_call``).

    ``executable`` is a SizedCpuExecutable or a SizedGpuExecutable.
    """
    on_gpu = hasattr(executable, "device")
    first = ["not capturing()"] if on_gpu and prepared else []
    placed = "{}.device == device" if on_gpu else "{}.is_cpu"
    text = begin_call(signature, slow, written_in_place(signature, executable.plan), placed, first, prepared)
    if text is None:
        return None
    tensors = ", ".join([*text.values, *(f"constants[{i}]" for i in range(len(constants))), *(["*kept"] if prepared else [])])
    text.scope["capturing"] = torch.cuda.is_current_stream_capturing
    text.scope.update({"run": executable.run_at, "constants": constants, "device": getattr(executable, "device", None)})
    text.lines.append(f"    results = run(({''.join(name + ', ' for name in executable.names)}), [{tensors}])")
    text.lines.append(f"    return {'results[0]' if signature.single_output else 'build(results)'}")
    return text.compile()
