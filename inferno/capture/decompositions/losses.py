"""Losses that torch takes apart wrongly, or whose gradient it loses digits of."""

import torch
from torch import Tensor

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


TABLE = {
    aten.multilabel_margin_loss_forward.default: multilabel_margin, aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
}
