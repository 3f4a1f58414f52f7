"""Products of groups of rows, a mixture's experts, against float64: by torch's library, as a product of all with all, and by one kernel."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory
from grouped_cases import ENDS, experts, gated, grouped, mixed, operands, weighted
from on_gpu import on_hopper

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

import inferno
from inferno.schedule import assign
from inferno.schedule.matmul import grouped as schedules
from inferno.target import find_target

TARGET = find_target("sm_90a")
PASSES = "fuse-grouped{target=sm_90a always=1}"

pytestmark = on_hopper


def right(function, args, chunks):
    """With every schedule that is tried."""
    number, count, made = 0, 1, []

    def choose(kernel):
        nonlocal count
        found = schedules.read(kernel, TARGET)
        if found is None:
            return assign.choose(kernel, TARGET)
        made.append(1 if found.second is None else 2)
        tried = schedules.candidates(found, TARGET)
        count = len(tried)
        return tried[number % count][1]

    while number < count:
        made.clear()
        compiled = compile_universal(function, args, torch.device("cuda"), "sm_90a", choose=choose, passes=PASSES)
        assert tuple(made) == chunks
        poison_memory()
        assert (found := check(compiled, function, args)).right, (number, str(found))
        first = compiled(*args)
        assert all(torch.equal(first, compiled(*args)) for _ in range(5))
        number += 1


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_groups(name, dtype):
    right(grouped, operands(ENDS[name], max(ENDS[name][-1], 160) + 3, 200, 264, dtype, "cuda"), (1,))


@pytest.mark.parametrize("transposed", [True, False])
def test_chunks_and_any_order(transposed):
    x, w, _ = operands([1000] * 8, 1000, 256, 2 * 272, device="cuda", transposed=transposed)
    numbers = torch.randint(0, 8, (1000,), device="cuda")
    right(gated, (x, w, numbers.sort()[0]), (2,))
    right(mixed, (x, w, numbers), (1,))


def test_experts():
    x, first, ends = operands([0, 300, 301, 301, 555, 900, 901, 1200], 1200, 512, 2 * 256, device="cuda")
    second = torch.randn(8, 512, 256, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
    right(experts, (x, first, second, ends, torch.rand(1200, device="cuda"), torch.randperm(1200, device="cuda")), (2, 1))
    right(weighted, (x, first, ends, torch.rand(1200, device="cuda")), (1,))


@pytest.mark.parametrize("rows, terms, columns, groups, library", [
    (512, 1024, 2048, 8, False), (512, 256, 512, 64, False), (16, 512, 512, 8, False), (2, 512, 512, 8, False), (16384, 1024, 1536, 64, True),
    (16384, 1024, 1536, 64, False),
])
def test_operation(monkeypatch, rows, terms, columns, groups, library):
    """Eager's own operation, of rows that all have a group; so many rows stay the library's by default."""
    monkeypatch.setenv("INFERNO_UNMEASURED", str(int(rows > 512 and not library)))
    ends = torch.randint(0, groups, (rows,)).bincount(minlength=groups).cumsum(0).int().tolist()
    x, w, offs = operands(ends, rows, terms, columns, device="cuda")
    compiled = inferno.compile(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), (x, w, offs))
    assert any("torch's library" in p.reason for p in compiled.explain().pieces) == library
    poison_memory()
    found, exact, begin = compiled(x, w, offs), torch.empty(rows, columns, dtype=torch.float64, device="cuda"), 0
    for group, end in enumerate(ends):
        exact[begin:end] = x[begin:end].double() @ w[group].double()
        begin = end
    assert (found.double() - exact).norm() <= torch.finfo(torch.bfloat16).eps * exact.norm()
