"""What a kernel computes that goes along one dimension of a tensor and keeps a running value: ``tm_tensor.scan`` of a whole tensor."""

from dataclasses import dataclass
from math import prod

from inferno.mlir import func, ir, owner
from inferno.schedule.accesses import argument_index, destination_index
from inferno.schedule.combiners import BodyCombiner, Combiner, scan_combiner, term_of


@dataclass(frozen=True)
class ScanKernel:
    """Running values of a tensor [``outer``, ``length``, ``inner``] along ``length``: of the kernel's argument ``source`` into ``destination``."""

    outer: int
    length: int
    inner: int
    combiner: Combiner
    source: int
    destination: int

    @property
    def rows(self) -> int:
        """How many there are that have nothing to do with each other."""
        return self.outer * self.inner

    @property
    def points(self) -> int:
        return self.rows * self.length

    @property
    def along(self) -> bool:
        """Whether neighbours in memory belong to one row."""
        return self.inner == 1

    @property
    def bytes(self) -> int:
        """Of an element in memory."""
        return max(8, self.combiner.narrow.width) // 8


def parse_scan_kernel(kernel: func.FuncOp) -> ScanKernel | None:
    """What ``kernel`` computes, or None if it is anything else, has sizes that vary, or one whose running value is no known combination."""
    operations = [o.operation for o in kernel.entry_block.operations]
    if any(o.name not in ("tm_tensor.scan", "linalg.fill", "arith.constant", "tensor.empty", "func.return") for o in operations):
        return None
    scans, returned = [o for o in operations if o.name == "tm_tensor.scan"], list(operations[-1].operands)
    if len(scans) != 1 or len(returned) != 1 or returned[0] != scans[0].results[0] or any(True for _ in scans[0].results[1].uses):
        return None
    scan = scans[0]
    types = [v.type for v in (scan.operands[0], returned[0])]
    if types[0] != types[1] or not types[0].has_static_shape or 0 in types[0].shape:
        return None
    source, destination = argument_index(kernel, scan.operands[0]), destination_index(kernel, returned[0])
    if source is None or destination is None or source == destination:
        return None
    if "inclusive" not in scan.attributes or not ir.BoolAttr(scan.attributes["inclusive"]).value:
        return None
    combiner = scan_combiner(scan)
    if combiner is None or str(combiner.narrow) == "i1" or combiner.narrow != types[0].element_type:
        return None
    if not isinstance(combiner, BodyCombiner) and not _takes_elements(scan.regions[0].blocks[0]):
        return None
    shape, dim = list(types[0].shape), ir.IntegerAttr(scan.attributes["dimension"]).value
    return ScanKernel(prod(shape[:dim]), shape[dim], prod(shape[dim + 1:]), combiner, source, destination)


def _takes_elements(body: ir.Block) -> bool:
    """Whether what is added to the running value is an element itself, maybe in a wider type."""
    term = term_of(body, body.arguments[0])
    op = owner(term) if term is not None else None
    return term == body.arguments[1] or (op is not None and op.name == "arith.extf" and op.operands[0] == body.arguments[1])
