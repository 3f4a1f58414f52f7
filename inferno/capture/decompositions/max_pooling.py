"""Where the maximum of a window is: always a place in the input, also of NaN and of nothing but negative infinities.

The import finds the place by comparing with the maximum, and gives one that is outside where that is NaN, or the padding's.
"""

import math

import torch
from torch import Tensor

aten = torch.ops.aten

# Elements of a window that are compared one after the other, in one kernel.  By reductions of windows that are copied side by side the places of 2x2 of
# 32x64x56x56 took an H200 58 us besides the maxima's 7 in bf16, of 3x3 by 2 122.
_MOST_COMPARED = 32


def max_pool2d(
    x: Tensor, kernel_size: list[int], stride: list[int] = (), padding: list[int] = (0, 0), dilation: list[int] = (1, 1), ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The maxima as one layer of a pooling in three dimensions, which imports right, and the places from the windows themselves."""
    if x.dim() != 4 or x.dtype in (torch.uint8, torch.bool):
        return NotImplemented
    kernel, step, pad, gap = (_pair(v) for v in (kernel_size, stride or kernel_size, padding, dilation))
    values = None
    if x.is_floating_point() and not (ceil_mode and any(not isinstance(n, int) for n in x.shape)):  # (the import does not round sizes that vary up)
        values = aten.max_pool3d_with_indices.default(x.unsqueeze(2), [1, *kernel], [1, *step], [0, *pad], [1, *gap], ceil_mode)[0].squeeze(2)
        counts = values.shape[2:]
    else:
        counts = [count_windows(x.shape[d + 2], kernel[d], step[d], pad[d], gap[d], ceil_mode) for d in (0, 1)]
    if kernel[0] * kernel[1] <= _MOST_COMPARED:
        found, places = _compared(x, kernel, step, pad, gap, counts, ceil_mode)
        return (found if values is None else values), places
    rows, columns = (
        (torch.arange(counts[d], device=x.device) * step[d] - pad[d]).unsqueeze(-1) + torch.arange(kernel[d], device=x.device) * gap[d]
        for d in (0, 1)
    )
    inside = (rows >= 0) & (rows < x.shape[2]), (columns >= 0) & (columns < x.shape[3])
    found, places = _windows(x, rows, columns, *inside)
    return (found if values is None else values), places


def _compared(
    x: Tensor, kernel: list[int], step: list[int], pad: list[int], gap: list[int], counts: list[int], ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """Maxima and their places: of what is equal the first one, and the last NaN, as torch has it."""
    ends = [(counts[d] - 1) * step[d] + gap[d] * (kernel[d] - 1) + 1 - pad[d] - x.shape[d + 2] for d in (0, 1)]
    # Of a size that varies as far as any window goes: what is asked of it would be a condition of the graph.
    after = [max(0, end) if isinstance(end, int) else pad[d] + ceil_mode * (step[d] - 1) for d, end in enumerate(ends)]
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    padded = aten.constant_pad_nd.default(x, [pad[1], after[1], pad[0], after[0]], least) if any(pad) or any(after) else x
    begins = [torch.arange(counts[d], device=x.device, dtype=torch.int32) * step[d] - pad[d] for d in (0, 1)]
    first = [((gap[d] - 1 - begins[d]) // gap[d]).clamp(min=0) for d in (0, 1)]  # inside, where all are the least
    best = torch.full((), least, dtype=x.dtype, device=x.device)
    number = (first[0].unsqueeze(-1) * kernel[1] + first[1]).to(torch.int8)  # what a backward keeps
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            value = padded
            for d, place in ((2, i * gap[0]), (3, j * gap[1])):
                value = aten.slice.Tensor(value, d, place, place + (counts[d - 2] - 1) * step[d - 2] + 1, step[d - 2])
            larger = value > best
            larger = larger | torch.isnan(value) if x.is_floating_point() else larger
            best, number = torch.where(larger, value, best), torch.where(larger, i * kernel[1] + j, number)
    rows, columns = (n * gap[d] for d, n in enumerate((number.to(torch.int32) // kernel[1], number.to(torch.int32) % kernel[1])))
    return best, ((begins[0].unsqueeze(-1) + rows) * x.shape[3] + (begins[1] + columns)).to(torch.int64)


def count_windows(size: int, kernel: int, step: int, pad: int, gap: int, ceil_mode: bool) -> int:
    """How many windows there are; with ``ceil_mode`` also one that begins inside and ends outside."""
    reach = gap * (kernel - 1) + 1
    room = size + 2 * pad - reach
    count = ((room + step - 1) // step if ceil_mode else room // step) + 1
    return count - 1 if ceil_mode and pad + step > reach and (count - 1) * step >= size + pad else count


def adaptive_max_pool2d(x: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """Window i goes from floor(i * n / m) to where window i + 1 would begin at the latest."""
    if x.dim() != 4 or x.dtype in (torch.uint8, torch.bool):
        return NotImplemented
    (rows, in_row), (columns, in_column) = (_adaptive(x.shape[d + 2], n, x.device) for d, n in enumerate(_pair(output_size)))
    return _windows(x, rows, columns, in_row, in_column)


def _adaptive(size: int, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    number = torch.arange(count, device=device)
    begin, end = (number * size) // count, ((number + 1) * size + count - 1) // count
    most = max(((i + 1) * size + count - 1) // count - i * size // count for i in range(count))
    place = begin.unsqueeze(-1) + torch.arange(most, device=device)
    return place, place < end.unsqueeze(-1)


def _windows(x: Tensor, rows: Tensor, columns: Tensor, in_row: Tensor, in_column: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima and their places in the windows of ``rows`` [windows, size] and ``columns``, as far as they are inside of ``x``."""
    height, width = x.shape[2:]
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    apart = x[:, :, rows[:, :, None, None], columns]  # [batch, channels, rows, in a row, columns, in a column]
    windows = apart.movedim(3, 4).flatten(4)
    inside = (in_row[:, None, :, None] & in_column[None, :, None, :]).flatten(2)
    place = (rows[:, None, :, None] * width + columns[None, :, None, :]).flatten(2)
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    windows = torch.where(inside, windows, torch.full((), least, dtype=x.dtype, device=x.device))
    chosen = windows.argmax(-1)
    number = torch.arange(inside.shape[-1], device=x.device)
    first = torch.where(inside, number, inside.shape[-1] - 1).amin(-1)
    chosen = torch.maximum(chosen, first)  # nothing but -inf: the first place that is inside, not what is before it
    if x.is_floating_point():
        last = torch.where(torch.isnan(windows), number, -1).amax(-1)
        chosen = torch.where(last >= 0, last, chosen)  # the last NaN, as torch has it
    small = torch.int8 if inside.shape[-1] <= 127 else torch.int32  # what a backward keeps, if it does not find the place again
    selected = number == chosen.to(small).to(torch.int64).unsqueeze(-1)
    return windows.amax(-1), torch.where(selected, place, 0).sum(-1)


def _pair(value: list[int] | int) -> list[int]:
    value = [value] if isinstance(value, int) else list(value)
    return value * 2 if len(value) == 1 else value


TABLE = {aten.max_pool2d_with_indices.default: max_pool2d, aten.adaptive_max_pool2d.default: adaptive_max_pool2d}
