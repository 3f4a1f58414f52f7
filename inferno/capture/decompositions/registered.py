"""Decompositions that torch has registered and torch-mlir's table leaves out."""

import torch
from torch._decomp import get_decompositions

aten = torch.ops.aten

TABLE = get_decompositions([aten._batch_norm_with_update_functional.default])
