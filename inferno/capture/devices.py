"""What is known of the device that a tensor is on."""

import torch
from torch import Tensor


def on_hopper(tensor: Tensor) -> bool:
    """Whether a tensor is on a GPU for which there are kernels of sm_90a."""
    return tensor.device.type == "cuda" and torch.cuda.get_device_capability(tensor.device) == (9, 0)
