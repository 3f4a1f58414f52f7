"""Losses whose decomposition by torch is wrong, loses digits of the gradient, or goes over memory more often than it has to."""

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten


def multilabel_margin(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """How far each class that is no target comes to each target, of a row's targets in front of its first -1.

    torch's decomposition counts class 0 as a target in the place of each that there is not."""
    if not x.numel():
        return NotImplemented
    rows, targets = (torch.atleast_2d(t) for t in (x, target))
    wide = rows if rows.dtype == torch.float64 else rows.to(torch.float32)
    classes = torch.arange(rows.shape[1], device=x.device)
    end = torch.where(targets == -1, classes, rows.shape[1]).amin(-1, keepdim=True)
    there = classes < end
    score = torch.gather(wide, 1, torch.where(there, targets, 0))
    is_target = ((targets.unsqueeze(-1) == classes) & there.unsqueeze(-1)).any(1)
    margin = (1 - score.unsqueeze(-1) + wide.unsqueeze(1)).clamp(min=0)
    margin = torch.where(there.unsqueeze(-1) & ~is_target.unsqueeze(1), margin, 0).sum((1, 2)) / rows.shape[1]
    found = margin.mean() if reduction == 1 else margin.sum() if reduction == 2 else margin.reshape(x.shape[:-1])
    return found.to(x.dtype), is_target.to(x.dtype).reshape(target.shape)


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """torch.nn.functional's."""
    number = {"none": 0, "mean": 1, "sum": 2}.get(reduction)
    if number is None or size_average is not None or reduce is not None or input.shape != target.shape or input.dim() > 2:
        return NotImplemented
    found = multilabel_margin(input, target, number)
    return found if found is NotImplemented else found[0]


def soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """``-target * sigmoid(-target * x)``, of which torch's ``sigmoid(target * x) - 1`` is nothing where that is small."""
    each = gradient / x.numel() if reduction == 1 else gradient
    return -target * each * torch.sigmoid(-target * x)


def of_no_elements(gradient: Tensor, x: Tensor, target: Tensor, *_: object) -> Tensor:
    """A gradient that is empty: torch divides by the number of elements while it takes it apart."""
    return (x - target) * gradient if isinstance(n := x.numel(), int) and n == 0 else NotImplemented


def nll_loss_backward(
    gradient: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, total_weight: Tensor,
) -> Tensor:
    """Minus the loss's gradient for each row's target class, and nothing for the others: a comparison of classes, which is part of what reads it.

    torch scatters -1 into zeros: of cross entropy's backward that is a pass over the logits to write them and one to read them, in front of the only one."""
    dim = 0 if x.dim() < 2 else 1
    each = gradient / total_weight if reduction == 1 else gradient
    each = each.unsqueeze(dim) if 0 < each.dim() < x.dim() else each
    each = each if weight is None else each * as_dimension(weight, dim, x.dim())
    classes = as_dimension(torch.arange(x.shape[dim], device=x.device), dim, x.dim())
    chosen = torch.where(target == ignore_index, -1, target).unsqueeze(dim)
    return torch.where(classes == chosen, -each, 0.0).to(x.dtype)


TABLE = {
    aten.nll_loss_backward.default: nll_loss_backward, aten.nll_loss2d_backward.default: nll_loss_backward,
    aten.multilabel_margin_loss_forward.default: multilabel_margin, aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
    **dict.fromkeys((aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default), of_no_elements),
}
