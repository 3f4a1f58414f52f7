"""The model of ir.md: inferno compile docs/matmul_relu.py:MatmulRelu"""

import torch


class MatmulRelu(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(128, 256))

    def forward(self, x):
        return torch.relu(x @ self.w)


example_inputs = torch.randn(64, 128)
