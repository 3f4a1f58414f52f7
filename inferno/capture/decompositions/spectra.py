"""Spectra of short times: the frames are cut and weighed by a kernel, and torch's library transforms them."""

import torch
from torch import Tensor

aten = torch.ops.aten


def stft(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:
    """[..., frequencies, frames] of a signal [..., time], or pairs of real numbers of these."""
    length = n_fft if win_length is None else win_length
    if align_to_window or (x.is_complex() and onesided):
        return NotImplemented
    frames = x.unfold(-1, n_fft, n_fft // 4 if hop_length is None else hop_length)
    if window is not None or length < n_fft:
        weights = x.new_ones(length) if window is None else window
        before = (n_fft - length) // 2
        frames = frames * aten.constant_pad_nd.default(weights, [before, n_fft - length - before])
    whole = frames.is_complex() or onesided is False
    found = (torch.fft.fft if whole else torch.fft.rfft)(frames, norm="ortho" if normalized else "backward").transpose(-1, -2)
    return found if return_complex else torch.view_as_real(found)


TABLE = {aten.stft.default: stft}
