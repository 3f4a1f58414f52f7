"""What torch is told of TF32: whether products of float32 numbers may be rounded to it, on a GPU."""

import torch


def takes_tf32() -> bool:
    """Whether torch is told that contractions of float32 may round their operands to fewer bits."""
    return torch.get_float32_matmul_precision() != "highest"


def takes_tf32_convolutions() -> bool:
    """The same of convolutions, which torch is told apart, and which by default may."""
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # it was told in the newer way
        return torch.backends.cudnn.conv.fp32_precision == "tf32"
