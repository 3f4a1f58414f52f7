"""What gradients of a convolution are computed of."""

import torch


def operands(layer, shape, dtype=torch.float64):
    """Of a layer: the result's gradient, the image and the weight, random normal."""
    x, weight = torch.randn(shape).to(dtype), layer.weight.detach().to(dtype)
    return torch.randn(layer(x.float()).shape).to(dtype), x, weight


def options(layer):
    """As ``convolution_backward`` takes them."""
    return layer.stride, layer.padding, layer.dilation, layer.transposed, layer.output_padding, layer.groups
