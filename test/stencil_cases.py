"""Differences of neighbours in images with a border: for the simulator and for a GPU."""

import torch

F = torch.nn.functional
MODES = ["constant", "circular", "reflect", "replicate"]


def bordered(x: torch.Tensor, mode: str, border: int, dims: int) -> torch.Tensor:
    """``x`` with a border along its last ``dims`` dimensions."""
    return F.pad(x[None, None], (border, border) * dims, mode=mode)[0, 0]


def laplacian(mode: str):
    def model(x):
        p = bordered(x, mode, 1, 2)
        return p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * x
    return model


def wave(mode: str):
    def model(x, y):
        p = bordered(x, mode, 1, 3)
        near = p[2:, 1:-1, 1:-1] + p[:-2, 1:-1, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, 2:] + p[1:-1, 1:-1, :-2]
        return 2 * x - y + 0.1 * (near - 6 * x)
    return model


def edges(mode: str):
    def model(x):
        p, (h, w) = bordered(x, mode, 2, 2), x.shape
        across = sum(c * p[i:i + h, j:j + w] for i, j, c in ((0, 0, -1), (2, 0, -2), (4, 0, -1), (0, 4, 1), (2, 4, 2), (4, 4, 1)))
        return torch.sqrt(across.square() + (p[4:, 2:-2] - p[:-4, 2:-2]).square())
    return model


def steps(mode: str):
    """Every second element of two sides, and the whole, which is made as it is."""
    def model(x):
        p = bordered(x, mode, 1, 2)
        return p[::2, :-2] * p[1::2, 2:], p * 2
    return model


CASES = {  # what is made of a mode, and the shapes of its arguments
    "laplacian": (laplacian, [(20, 37)]), "of whole vectors": (laplacian, [(12, 64)]), "wave": (wave, [(5, 6, 24), (5, 6, 24)]), "edges": (edges, [(11, 20)]),
    "steps": (steps, [(8, 30)]),
}


def arguments(name: str, dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(s, device=device).to(dtype) for s in CASES[name][1])
