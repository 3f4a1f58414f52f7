"""Bags of embeddings, and the rows of a table that are made shorter when they are read."""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

# A bag's reduction meets every row that is looked up: of more terms than this, eager's loop over the bags, which takes 5 us on a GPU, is faster.
_MOST_TERMS = 1 << 22
_MODES = ("sum", "mean", "max")


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


def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:
    """Of a table [``num_weights``, size]: each row that was looked up gets its bag's gradient, or of a maximum the elements that it is.  Where gradients
    are divided by how often a row was looked up, eager on the CPU takes another row's number."""
    if sparse:
        return NotImplemented
    return dense_gradient(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx)


def dense_gradient(
    grad: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:
    """Of a table that is not sparse."""
    if offset2bag.shape[0] != indices.shape[0] or not grad.is_floating_point() or scale_grad_by_freq or not indices.numel() or not grad.numel():
        return NotImplemented
    if mode == 2:
        zeros = grad.new_zeros(num_weights, grad.shape[1])
        return zeros.scatter_add(0, maximum_indices, torch.where((bag_size > 0).unsqueeze(-1), grad, 0.0))
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = (rows.to(wide) * per_sample_weights.to(wide).unsqueeze(-1)).to(grad.dtype)
    if mode == 1:
        rows = (rows.to(wide) / bag_size.clamp(min=1)[offset2bag].unsqueeze(-1)).to(grad.dtype)
    return aten.embedding_dense_backward.default(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


def sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1,
) -> Tensor:
    """Of the weights of a sum: what the bag's gradient has along each row."""
    if offset2bag.shape[0] != indices.shape[0] or not indices.numel() or not weight.is_floating_point():
        return NotImplemented
    wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
    found = (grad.index_select(0, offset2bag).to(wide) * weight.index_select(0, indices).to(wide)).sum(-1)
    return (torch.where(indices == padding_idx, 0.0, found) if padding_idx >= 0 else found).to(weight.dtype)


def even_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:
    """torch.nn.functional.embedding_bag of bags of one size, a row of ``input`` each: rows that are looked up, and a sum, mean or maximum of each bag's."""
    alike = per_sample_weights is None or (mode == "sum" and per_sample_weights.shape == input.shape and per_sample_weights.dtype == weight.dtype)
    if input.dim() != 2 or offsets is not None or max_norm is not None or scale_grad_by_freq or sparse or not alike or mode not in _MODES:
        return NotImplemented
    if weight.dim() != 2 or not weight.is_floating_point() or input.dtype not in (torch.int32, torch.int64) or 0 in (*input.shape, *weight.shape):
        return NotImplemented
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        return NotImplemented
    rows = torch.nn.functional.embedding(input, weight)
    wide = rows if rows.dtype == torch.float64 else rows.to(torch.float32)
    if per_sample_weights is not None:
        wide = wide * per_sample_weights.to(wide.dtype).unsqueeze(-1)
    if padding_idx is None:
        return {"sum": Tensor.sum, "mean": Tensor.mean, "max": Tensor.amax}[mode](wide, 1).to(weight.dtype)
    inside = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    number = inside.sum(1)
    if mode == "max":
        found = torch.where(number > 0, torch.where(inside, wide, -math.inf).amax(1), 0.0)
    else:
        found = torch.where(inside, wide, 0.0).sum(1)
        found = found / number.clamp(min=1) if mode == "mean" else found
    return found.to(weight.dtype)


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
    aten._embedding_bag_backward.default: embedding_bag_backward,
    aten._embedding_bag_dense_backward.default: dense_gradient,
    aten._embedding_bag_per_sample_weights_backward.default: sample_weights_backward,
    aten.embedding_renorm.default: embedding_renorm,
}
