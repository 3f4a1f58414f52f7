"""Parts that are read where they lie: those of parts, too, of which one is in the other's reader before it is asked for itself."""

import torch
from torch import nn

from inferno.capture import capture
from inferno.passes.programs import find_main
from inferno.runtime.workers import jobs
from inferno.schedule.passes import fold_slices


class First(nn.Module):
    """The first row of attention, as a class token's."""

    def __init__(self):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(64), nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        return (x + self.attend(y, y, y, need_weights=False)[0])[:, 0]


def test_no_part_is_asked_for_that_is_in_another_kernel(monkeypatch):
    asked, folds, plain = [], [], fold_slices._fold

    def fold(merges, call, *more):
        asked.append(any(op.operation == call for op in find_main(merges.module).entry_block.operations))
        folds.append(plain(merges, call, *more))
        return folds[-1]

    monkeypatch.setattr(fold_slices, "_fold", fold)
    with torch.no_grad():
        linalg, _ = jobs.lower_to_linalg(capture(First().eval(), (torch.zeros(1, 17, 64),)).text)
    jobs.fuse(linalg, "sm_90a")
    assert asked and any(folds) and all(asked)
