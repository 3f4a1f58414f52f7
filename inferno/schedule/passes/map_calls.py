"""Which calls are of maps that may be one with others: passes that merge maps ask it of each."""

from inferno.mlir import func, ir, walk
from inferno.passes.generics import inputs, is_elementwise, maps
from inferno.passes.programs import callee, readers
from inferno.schedule.analysis.written_parts import writes_parts
from inferno.schedule.passes.calls import generics_of, is_open
from inferno.schedule.passes.changed_places import changes_places


class MapCalls:
    """``kernels`` by name; what is known of them is kept."""

    def __init__(self, kernels: dict[str, func.FuncOp]) -> None:
        self._kernels = kernels
        self._maps: dict[str, bool] = {}
        self._scattering: dict[str, bool] = {}

    def __contains__(self, call: ir.Operation) -> bool:
        """Whether a call is of an elementwise operation that changes no argument in places, as a cache, and gives a scatter no places, which
        ``fold-places`` lets it compute."""
        name = callee(call) if call.name == "func.call" else ""
        if name not in self._maps:
            self._maps[name] = _is_map(self._kernels.get(name))
        if not self._maps[name] or changes_places(call, self._kernels[name]):
            return False
        return not any(u.name == "func.call" and self._scatters(callee(u)) for r in call.results for u in readers(r))

    def _scatters(self, name: str) -> bool:
        if name not in self._scattering:
            self._scattering[name] = name in self._kernels and bool(walk(self._kernels[name], "tm_tensor.scatter"))
        return self._scattering[name]


def _is_map(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one elementwise operation, whose results all lie in one order, and are tensors of their own."""
    generics = generics_of(kernel) if is_open(kernel) and not writes_parts(kernel) else []
    if len(generics) != 1 or not is_elementwise(generics[0]) or not (inputs(generics[0]) or walk(generics[0], "tensor.extract")):
        return False
    own = maps(generics[0])[len(inputs(generics[0])):]
    return own[0].is_permutation and all(m == own[0] for m in own)
