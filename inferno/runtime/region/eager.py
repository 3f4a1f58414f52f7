"""A model on whose graph the compiler failed: it runs in eager, behind the face of a compiled one."""

from typing import Any

import torch
from torch import Tensor

from inferno.runtime.call.transforms import run_model, why_eager
from inferno.runtime.region.piecewise import PiecewiseModule


class EagerModule(PiecewiseModule):
    """Called like any CompiledModule, and refuses what one refuses; its ``region`` is the model itself, which computes no gradients here either.

    torch.autocast is the caller's: for the model, unlike for what was compiled of it, no state of it is another.
    """

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if (reason := why_eager()) is not None:
            return run_model(self, reason, args, kwargs)
        tensors = self.program.signature.arguments_of(args, kwargs)
        if (reason := why_eager(tensors)) is not None:
            return run_model(self, reason, args, kwargs)
        if self._check_sizes is not None:
            self._check_sizes(tensors)
        for i, (tensor, (shape, dtype, is_input, *_)) in enumerate(zip(tensors, self._expected)):
            fits = isinstance(tensor, Tensor) and shape in (None, tensor.shape) and tensor.dtype is dtype and tensor.device == self.device
            if not fits or (is_input and tensor.requires_grad):
                self._adapt(i, tensor)  # an error, or nothing that eager would mind
        with torch.no_grad():
            return self.region.run([self._model, args, kwargs])
