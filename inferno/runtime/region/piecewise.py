"""A compiled model of which parts run in eager: compiled segments with ATen calls between them."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from inferno.capture import Signature
from inferno.capture.orders import dense_order, inverse
from inferno.errors import CompileError, PackageError, PassError, UnsupportedOperation
from inferno.runtime.face import compile_again
from inferno.runtime.module import CompiledModule
from inferno.runtime.program import Program
from inferno.runtime.region.region import Region
from inferno.target import Target

log = logging.getLogger(__name__)


class PiecewiseModule(CompiledModule):
    """Called like any CompiledModule.  ``ir(stage)`` holds the segments' modules one after the other; ``region`` has the function
    that runs them."""

    def __init__(
        self, region: Region, examples: Sequence[Tensor], signature: Signature, target: Target, device: torch.device, seconds: float,
        called: tuple[Region, ...] = (),
    ) -> None:
        """``examples``: a fake tensor for each argument, with the strides that the region was compiled for.  ``called``: the regions of what its operations
        call, as the branches of a condition."""
        self.region, self.called = region, called
        self._regions = (region, *called)
        self.programs = tuple(p for r in self._regions for p in r.programs)
        self.fallbacks = tuple(f for r in self._regions for f in r.fallbacks)
        self._places = [e.device for e in examples]
        kernels = {f"{i}.{name}": k for i, p in enumerate(self.programs) for name, k in p.kernels.items()}
        self._bind(Program(signature, target, {}, kernels, [], []), device, seconds, _RegionExecutable(region, examples), [])

    def _adapt(self, index: int, tensor: Any) -> Tensor:
        """Operations in eager take some tensors on the CPU, such as a mask, for one on the GPU: where the example was there, so it stays."""
        shape, dtype, *_ = self._expected[index]
        stays = isinstance(tensor, Tensor) and tensor.dim() and not tensor.requires_grad and tensor.device == self._places[index] != self.device
        if stays and shape in (None, tensor.shape) and tensor.dtype is dtype:
            return tensor.detach()
        return super()._adapt(index, tensor)

    def ir(self, stage: str) -> str:
        """The segments' text at ``stage``, each as a module of its own."""
        return join_stages(self.programs, stage)

    def refresh(self) -> None:
        """Prepare frozen weights again at the next call."""
        for region in self._regions:
            region.refresh()

    def save(self, path: Any, ir: bool = True) -> None:
        """Write one program to a file that ``inferno.load`` reads; see ``package.save``.

        A package has no PyTorch, so what its library runs here, because that is faster, is compiled for the file.  PackageError names
        what cannot be.
        """
        self._whole().save(path, ir)

    def _whole(self) -> CompiledModule:
        """The model compiled again, without a piece in eager."""
        reason = str(self.fallbacks[0]) if self.fallbacks else "it is compiled in pieces"
        if self._recipe is not None:
            log.info("compiling the model whole, for a package: %s", reason)
            recipe = replace(self._recipe, options={**self._recipe.options, "fallback": False, "check": False})
            try:
                whole = compile_again(self._model, recipe)
                if not isinstance(whole, PiecewiseModule):  # random numbers that continue torch's are drawn between pieces
                    return whole
            except (CompileError, PassError, UnsupportedOperation) as error:
                reason = str(error)
        raise PackageError(f"a package runs without PyTorch's operators, but this model needs them: {reason}")


def join_stages(programs: Sequence[Program], stage: str) -> str:
    """The text of several programs at a stage, divided as MLIR's tools divide modules."""
    if not programs:
        return "// nothing is compiled\n"
    return "\n// -----\n\n".join(p.ir(stage).rstrip() + "\n" for p in programs)


class _RegionExecutable:
    """A region as what runs a program: tensors in ``@main``'s order in, results out."""

    all_results_are_new = False

    def __init__(self, region: Region, examples: Sequence[Tensor]) -> None:
        self._run = region.run
        self._orders = [dense_order(e) for e in examples]

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return self._run([_in_order(t, order) for t, order in zip(arguments, self._orders)])


def _in_order(tensor: Tensor, order: tuple[int, ...] | None) -> Tensor:
    """The tensor, dense in this order of dimensions; None is any."""
    if order is None or tensor.permute(order).is_contiguous():
        return tensor
    return tensor.permute(order).contiguous().permute(inverse(order))
