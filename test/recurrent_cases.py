"""Programs with equal steps: layers of torch's, cells that a program calls, and steps of its own."""

import torch
from torch import nn

randn, bf16 = torch.randn, torch.bfloat16


class Cells(nn.Module):
    """A cell for each layer, called one after the other in each step, and what the last one made in all."""

    def __init__(self, *cells):
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, x, *states):
        states, made = list(states), []
        for t in range(x.shape[1]):
            below = x[:, t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(below, (states[i],) * 2 if t == 0 and isinstance(cell, nn.LSTMCell) else states[i])
                below = states[i][0] if isinstance(cell, nn.LSTMCell) else states[i]
            made.append(below)
        return torch.stack(made, 1)


class Own(nn.Module):
    """Two products of the state with weights of their own, which lie along the units; and something else reads every state."""

    def __init__(self, n):
        super().__init__()
        self.w, self.g, self.b = nn.Parameter(randn(n, n) / n**0.5), nn.Parameter(randn(n, n) / n**0.5), nn.Parameter(randn(n))

    def forward(self, x, h):
        made = []
        for t in range(x.shape[0]):
            z = torch.sigmoid(h @ self.g + x[t])
            h = z * h + (1 - z) * torch.tanh(x[t] + h @ self.w + self.b)
            made.append(h.square().sum())
        return torch.stack(made), h


class Powers(nn.Module):
    def forward(self, a, x):
        for _ in range(6):
            x = x @ a * 0.5 + x
        return x
