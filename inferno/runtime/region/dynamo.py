"""A model that is not one graph: Dynamo captures it in several, as it runs, and each is compiled."""

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from inferno.errors import LaunchError, PackageError
from inferno.options import Options
from inferno.runtime.call.transforms import run_model, why_traced
from inferno.runtime.check.restoring import untraced
from inferno.runtime.face import Face
from inferno.runtime.region.piecewise import join_stages
from inferno.runtime.program import Program
from inferno.runtime.region.region import Fallback
from inferno.runtime.report import Report, counted
from inferno.target import Target

log = logging.getLogger(__name__)


class DynamoModule(Face):
    """Called like the model; compiles what each call meets for the first time.  ``ir`` and ``explain`` are about what has been
    compiled so far, and compile the example's call where that is nothing, which leaves no trace in tensors and random numbers.

    Dynamo leaves to Python, unless it is told otherwise, gradients that a model takes itself, as forces of an energy, and all around a recurrent
    layer, where torch's way to gradients of an LSTM fails."""

    def __init__(
        self, model: Any, args: tuple, kwargs: dict[str, Any], options: Options, target: Target, device: torch.device, reason: str,
    ) -> None:
        from inferno.runtime.region.backend import compile_captured

        self.target = target
        self.device = device
        self.reason = reason
        self.regions: list[tuple[str, Any]] = []
        self._example = args, kwargs
        self._options = options
        self.__dict__["_function"] = torch.compile(model, backend=functools.partial(compile_captured, options=options, regions=self.regions))
        self._recurrent = isinstance(model, nn.Module) and any(isinstance(m, nn.RNNBase) for m in model.modules())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (reason := why_traced(args)) is not None:
            return run_model(self, reason, args, kwargs)
        with self._traced_whole():
            return self._function(*args, **kwargs)

    @contextlib.contextmanager
    def _traced_whole(self) -> Iterator[None]:
        """Where Dynamo leaves less to Python."""
        config = torch._dynamo.config
        before = config.trace_autograd_ops, config.allow_rnn
        # Set by hand: config.patch takes 74 us.
        config.trace_autograd_ops = True
        config.allow_rnn = before[1] or (self._recurrent and not torch.is_grad_enabled())
        try:
            yield
        finally:
            config.trace_autograd_ops, config.allow_rnn = before

    def _copy_for(self, model: Any, memo: dict[int, Any]) -> "DynamoModule":
        return DynamoModule(model, *self._example, self._options, self.target, self.device, self.reason).attach(model, self._recipe)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of all segments compiled so far."""
        return tuple(p for _, region in self.regions for p in region.programs)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The operations of all graphs captured so far that run in eager."""
        return tuple(f for _, region in self.regions for f in region.fallbacks)

    def ir(self, stage: str) -> str:
        """The text at ``stage`` of every segment compiled so far."""
        self._compile_something()
        return join_stages(self.programs, stage)

    def explain(self, *args: Any, **kwargs: Any) -> Report:
        """A report of what has been compiled so far.  Given the arguments of a call, of what runs in that call, with the share of each
        piece of its time."""
        from inferno.runtime.explain import measure_captured, report_of_regions

        if args or kwargs:
            with self._traced_whole():
                regions, timing = measure_captured(self._function, args, kwargs, lambda: self.regions)
        else:
            self._compile_something()
            regions, timing = self.regions, None
        return report_of_regions([r for _, r in regions], (f"captured by Dynamo: {self.reason}",), timing, self.target.name)

    def _compile_something(self) -> None:
        """Compile the example's call, if nothing has been compiled.  For another machine that ends at the first graph, which is
        compiled but cannot be called."""
        if self.regions:
            return
        with self._traced_whole(), untraced(self._function, *self._example) as prepare:
            try:
                prepare()()
            except LaunchError as error:
                log.info("the example's call ended: %s", error)

    def refresh(self) -> None:
        """Prepare frozen weights again at the next call."""
        for _, region in self.regions:
            region.refresh()

    def save(self, path: Any, ir: bool = True) -> None:
        """Packages hold whole programs: PackageError, which says why this is none."""
        raise PackageError(f"a package holds one graph, and this model is not one: {self.reason}")

    def __repr__(self) -> str:
        return f"DynamoModule({counted(len(self.regions), 'graph')} for {self.target.name})"
