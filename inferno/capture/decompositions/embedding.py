"""Bags of embeddings, and the rows of a table that are made shorter when they are read."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

# A bag's reduction meets every row that is looked up: of more terms than this, eager's loop over the bags is faster.
_MOST_TERMS = 1 << 28


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(output, bag of each index, sizes of the bags, for mode 2 the index of each maximum): bag b begins at ``offsets[b]``.

    Mode 0 adds up, 1 takes the mean, 2 the maximum, without the rows ``padding_idx``; of an empty bag all are 0.
    """
    bags = offsets.shape[0] - include_last_offset
    count, size = indices.shape[0], weight.shape[1]
    if not weight.is_floating_point() or bags * count * size > _MOST_TERMS or not count or not size:
        return NotImplemented
    wide = weight.dtype if weight.dtype == torch.float64 else torch.float32
    bag = (offsets[:bags] <= torch.arange(count, device=indices.device, dtype=offsets.dtype).unsqueeze(-1)).sum(-1) - 1
    inside = bag == torch.arange(bags, device=indices.device).unsqueeze(-1)
    if padding_idx >= 0:
        inside = inside & (indices != padding_idx)
    rows = weight.index_select(0, indices).to(wide)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(wide).unsqueeze(-1)
    number = inside.sum(-1)
    if mode == 2:
        each = torch.where(inside.unsqueeze(-1), rows, -math.inf)
        found = torch.where((number > 0).unsqueeze(-1), each.amax(1), 0.0)
        most = torch.where((number > 0).unsqueeze(-1), indices[each.argmax(1)], 0)
    else:
        found = torch.where(inside.unsqueeze(-1), rows, 0.0).sum(1)
        found = found / number.clamp(min=1).unsqueeze(-1) if mode == 1 else found
        most = number
    return found.to(weight.dtype), bag, number, most


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows that ``indices`` name are scaled down to ``max_norm`` where they are longer; the others stay."""
    wide = weight if weight.dtype == torch.float64 else weight.to(torch.float32)
    norm = torch.linalg.vector_norm(wide, norm_type, 1, keepdim=True)
    used = torch.zeros(weight.shape[0], dtype=torch.int32, device=weight.device)
    used = used.index_put((indices.flatten(),), torch.ones((), dtype=torch.int32, device=weight.device))
    shorter = (wide * (max_norm / (norm + 1e-7))).to(weight.dtype)  # the 1e-7 is torch's
    return torch.where((used != 0).unsqueeze(-1) & (norm > max_norm), shorter, weight)


TABLE = {
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten.embedding_renorm.default: embedding_renorm,
}
