"""Which machine a model's tensors are on, and the target that stands for it."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from inferno.capture.as_module import modules_of
from inferno.errors import InputError, OptionError
from inferno.settings import settings
from inferno.target import TARGETS, Target, find_target
from inferno.tf32 import takes_tf32_convolutions


def find_device(model: Any, args: tuple, kwargs: dict[str, Any]) -> torch.device:
    """The one device of the model's and the inputs' tensors; the CPU if there is no tensor at all."""
    tensors = list(_tensors(model, args, kwargs))
    seen: dict[torch.device, str] = {}
    for name, tensor in [t for t in tensors if t[1].dim()] or tensors:  # a scalar on the CPU may go with tensors on a GPU
        seen.setdefault(tensor.device, name)
    if len(seen) > 1:
        found = ", ".join(f"{name} on {device}" for device, name in seen.items())
        raise InputError(f"all tensors must be on one device, got {found}; move the model and its inputs to the same device")
    return next(iter(seen), torch.device("cpu"))


def _tensors(model: Any, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple[str, torch.Tensor]]:
    given = [(f"input {i}", leaf) for i, leaf in enumerate(tree_leaves((args, kwargs))) if isinstance(leaf, torch.Tensor)]
    yield from given
    if isinstance(model, torch.export.ExportedProgram):
        yield from model.state_dict.items()
    elif isinstance(model, torch.nn.Module):
        yield from model.named_parameters()
        yield from model.named_buffers()
    elif not given:  # what a function holds may be no part of the program
        for name, module in modules_of(model).items():
            yield from ((f"{name}.{key}", tensor) for key, tensor in module.state_dict().items())


def choose_target(name: str | None, device: torch.device) -> Target:
    """The target that is asked for by name, else the device's own.  OptionError where there is none."""
    return find_target(name) if name else target_of(device)


def features() -> tuple[str, ...]:
    """What changes how programs are compiled: settings (see ``Settings.features``), whether convolutions may be TF32, and whether a GPU is a smaller part
    than its target is of, or a slice of one."""
    found = {"tf32_convolutions": takes_tf32_convolutions(), "few_multiprocessors": _has_small_gpu()}
    return (*settings().features(), *(name for name, there in found.items() if there))


def _has_small_gpu() -> bool:
    """Of those that are used already: asking would make a context."""
    whole = {t.capability: t.multiprocessors for t in TARGETS.values() if t.kind == "nvptx"}
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    return any(p.multi_processor_count < whole.get(10 * p.major + p.minor, 0) for p in found)


def target_of(device: torch.device) -> Target:
    """The target for a device: the CPU, or the newest known architecture that runs on the GPU."""
    if device.type == "cpu":
        return TARGETS["cpu"]
    if device.type != "cuda":
        raise OptionError(f"no target for device {device}; Inferno compiles for cpu and cuda")
    major, minor = torch.cuda.get_device_capability(device)
    capability = 10 * major + minor
    exact = [t for t in TARGETS.values() if t.kind == "nvptx" and t.capability == capability]
    # Code for an architecture runs on later ones of the same major version, but for the architecture-specific sm_90a.
    near = [t for t in TARGETS.values() if t.kind == "nvptx" and t.capability // 10 == major and t.capability < capability and not t.hopper]
    if not exact and not near:
        raise OptionError(f"no target for compute capability {major}.{minor}; the targets are {', '.join(TARGETS)}")
    return exact[0] if exact else max(near, key=lambda t: t.capability)
