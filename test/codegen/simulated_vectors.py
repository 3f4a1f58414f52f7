"""Operations of the simulator on vectors: one row of lanes a thread."""

import numpy as np
from simulated_arithmetic import from_bf16, stored_dtype, to_bf16

from inferno.mlir import ir


class Vectors:
    """Handlers of ``Simulation``."""

    def vector_extract(self, op, operands, mask):
        (place,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
        return [np.asarray(operands[0])[..., place]]

    def vector_shuffle(self, op, operands, mask):
        a, b = (np.broadcast_to(v, (self.count, np.asarray(v).shape[-1])) for v in operands)
        return [np.concatenate([a, b], -1)[:, list(ir.DenseI64ArrayAttr(op.attributes["mask"]))]]

    def vector_insert(self, op, operands, mask):
        value, target = operands
        made = np.array(np.broadcast_to(target, (self.count, np.asarray(target).shape[-1])))
        made[:, next(iter(ir.DenseI64ArrayAttr(op.attributes["static_position"])))] = value
        return [made]

    def vector_from_elements(self, op, operands, mask):
        return [np.stack([np.broadcast_to(v, mask.shape) for v in operands], -1)]

    def vector_bitcast(self, op, operands, mask):
        source, result = (v.type.element_type for v in (op.operands[0], op.results[0]))
        value = np.asarray(operands[0])
        value = value if value.ndim else np.full(op.operands[0].type.shape, value)  # a constant of equal elements
        value = np.ascontiguousarray(to_bf16(value) if isinstance(source, ir.BF16Type) else value).view(stored_dtype(str(result)))
        return [from_bf16(value) if isinstance(result, ir.BF16Type) else value]

    def vector_fma(self, op, operands, mask):
        a, b, c = (np.asarray(v) for v in operands)
        return [(a.astype(np.float64) * b + c).astype(c.dtype)]

    def vector_broadcast(self, op, operands, mask):
        lanes = ir.VectorType(op.results[0].type).shape[0]
        return [np.repeat(np.broadcast_to(operands[0], mask.shape)[:, None], lanes, 1)]
