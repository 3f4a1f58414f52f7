"""Independent contractions of one tensor in one launch: right on the simulated GPU, and assembled as one kernel without spills."""

import re

import pytest
import torch
from checks import check
from siblings_program import TARGET, SimulatedRows, SimulatedSiblings, fuse, merged

from inferno.codegen.composite import siblings as codegen
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.runtime.workers import jobs
from inferno.schedule.analysis.kernel_parts import parts_of
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.composite import size_ranges
from inferno.schedule.composite.siblings import Siblings
from inferno.target import find_target

F = torch.nn.functional
bf16 = torch.bfloat16


@pytest.fixture(autouse=True)
def pays(monkeypatch):
    monkeypatch.setattr(Siblings, "pays", True)


def projections(x, *weights):
    return tuple(F.linear(x, w) for w in weights)


def with_epilogues(x, w, v, u, b, r):
    gate = F.linear(x, w, b)
    return gate, torch.relu(gate), torch.relu(F.linear(x, v)) * 0.5, F.linear(x, u) + r


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rows, dtype", [(1, torch.float32), (3, bf16), (8, torch.float32)])
@pytest.mark.parametrize("number", [0, 1])
def test_projections(rows, dtype, number):
    torch.manual_seed(0)
    args = tuple(normal(*s, dtype=dtype) for s in ((rows, 264), (72, 264), (24, 264), (40, 264)))
    simulated = SimulatedSiblings(projections, args, number)
    assert simulated.counts and len(simulated.program.plan.steps) == 1
    assert (found := check(simulated, projections, args)).right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("number", [0, 2])
def test_tiles_on_cuda_cores(number):
    torch.manual_seed(0)
    args = tuple(normal(*s) for s in ((20, 40), (40, 40), (33, 40), (7, 40)))
    simulated = SimulatedSiblings(projections, args, number, "simt")
    assert simulated.counts and len(simulated.program.plan.steps) == 1
    assert (found := check(simulated, projections, args)).right, str(found)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype, target", [(bf16, "sm_80"), (torch.float64, "sm_90a")])
def test_tiles_of_mma(dtype, target):
    torch.manual_seed(0)
    args = tuple(normal(*s, dtype=dtype) for s in ((24, 72), (40, 72), (33, 72), (16, 72)))
    simulated = SimulatedSiblings(projections, args, 0, "mma", find_target(target))
    assert simulated.counts and len(simulated.program.plan.steps) == 1
    assert (found := check(simulated, projections, args)).right, str(found)


def test_epilogues():
    torch.manual_seed(0)
    args = tuple(normal(*s) for s in ((2, 136), (40, 136), (36, 136), (52, 136), (40,), (2, 52)))
    simulated = SimulatedSiblings(with_epilogues, args)
    assert simulated.counts and len(simulated.program.plan.steps) == 1  # what ReLU reads is a result too
    assert (found := check(simulated, with_epilogues, args)).right, str(found)


def build(function, *args, number=0, target=TARGET):
    """The merged kernel."""
    text, counts = merged(fuse(function, args)[1], number, target=target)
    assert len(counts) == 1
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        only = [k for k in kernels(module) if "siblings" in str(k.attributes[ATTRIBUTE])]
        texts = [f"module {{\n{k.operation.get_asm(use_local_scope=True)}\n}}\n" for k in only]
    made = jobs.build(texts[0], target.name)
    assert not made.note, made.note
    assert made.ptx.count(".entry") == 1
    assert not made.resources or all(r.spills == r.stack == 0 for r in made.resources.values())
    for r in made.resources.values() if made.resources else ():  # threads begin with so many, and may not ask for fewer
        assert all(int(n) >= r.registers for n in re.findall(r"setmaxnreg\.inc\S+\s+(\d+)", made.ptx))
    return made


def arms(made):
    """How many bodies the kernel has.  (What they have in common LLVM joins.)"""
    return made.module.count("nvvm.setmaxregister increase")


def empty(*shape, dtype=bf16):
    return torch.empty(shape, dtype=dtype)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rows", [16, 512])
def test_equal_parts_are_one_arm(rows):
    """Keys and values have one arm, which gets its tensor maps by the block's number; queries another."""
    made = build(projections, empty(rows, 512), empty(512, 512), empty(128, 512), empty(128, 512))
    assert arms(made) == 2
    assert "selp.b64" in made.ptx


def test_equal_parts_of_vectors_read_as_one_does():
    """What is read only stays so where it is chosen by the block's number."""
    made = build(projections, empty(1, 4096), empty(512, 4096), empty(128, 4096), empty(128, 4096))
    assert "gpu.func" in made.module and made.module.count("gpu.block_id") == 3
    assert "ld.global.nc" in made.ptx and not re.search(r"ld\.global\.(?!nc)", made.ptx)


def test_three_equal_parts_are_no_branches():
    made = build(projections, empty(100, 256), *(empty(256, 256),) * 3)
    assert arms(made) == 1


def test_the_operand_has_one_map():
    """Three weights, and the operand that they share."""
    made = build(projections, empty(64, 512), empty(320, 512), empty(192, 512), empty(72, 512))
    maps = [line for line in made.module.splitlines() if "inferno.tensor_map" in line]
    assert sum("(%arg0)" in m for m in maps) == 1 and {f"(%arg{i})" for i in (1, 2, 3)} <= {w for m in maps for w in m.split()[2:3] for w in [w[w.index("("):]]}
    assert made.module.count("inferno.launch\"") == 1 and arms(made) == 3


def test_sums_in_parts():
    """Clusters: each arm counts its own."""
    args = empty(16, 4096), empty(512, 4096), empty(256, 4096), empty(256, 4096)
    fused = fuse(projections, args)[1]
    number = next(n for n in range(8) if re.search("split = [24] ", merged(fused, n)[0]))
    made = build(projections, *args, number=number)
    assert "clusterid.x" in made.ptx and made.ptx.count(".explicitcluster") == 1


def test_layouts_may_differ():
    made = build(lambda x, w, v: (x @ w, F.linear(x, v)), empty(200, 256), empty(256, 192), empty(64, 256))
    assert arms(made) == 2


def test_float16_with_biases():
    def heads(x, w, v, b, c):
        return F.linear(x, w, b), F.linear(x, v, c)

    half = torch.float16
    build(heads, *(empty(*s, dtype=half) for s in ((77, 256), (96, 256), (40, 256), (96,), (40,))))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
def test_other_gpus(target):
    made = build(projections, empty(100, 256), empty(256, 256), empty(64, 256), empty(64, 256), target=find_target(target))
    assert 'generator = "mma"' in made.schedule and "selp.b64" in made.ptx and "mma.sync" in made.ptx


@pytest.mark.thorough
def test_float32():
    """Split into parts of bf16 as each of them is alone."""
    args = (empty(*s, dtype=torch.float32) for s in ((300, 768), (768, 768), (256, 768), (256, 768)))
    made = build(projections, *args)
    assert 'generator = "bf16x6"' in made.schedule and arms(made) == 2


def test_weights_gradients():
    """The operand that is shared is the other one, and what varies are rows."""
    made = build(lambda x, g, h: (g.t() @ x, h.t() @ x), empty(512, 256), empty(512, 384), empty(512, 128))
    assert arms(made) == 2


def attention(x, w, v, u, cosine):
    """Queries and keys are transposed between the projections."""
    q = F.linear(x, w) * cosine
    k = torch.tanh(F.linear(x, v)).view(x.shape[0], 2, -1)
    return q, k, F.linear(x, u) + x[:, :1], q.sum(1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, shapes", [
    (projections, ((48, 136), (72, 136), (40, 136), (40, 136))),
    (with_epilogues, ((32, 136), (40, 136), (40, 136), (56, 136), (40,), (32, 56))),
    (attention, ((24, 128), (64, 128), (32, 128), (32, 128), (64,))),
])
def test_the_program_is_the_same(function, shapes):
    """What the calls and the functions say, in PyTorch, before and after."""
    torch.manual_seed(0)
    args = tuple(normal(*s, dtype=bf16) for s in shapes)
    _, fused, constants = fuse(function, args)
    text, counts = merged(fused)
    assert counts and not constants
    results = []
    for program in (fused, text):
        source = jobs.to_pytorch(program)
        assert not source.missing
        scope: dict = {}
        exec(source.text, scope)
        results.append(scope["main"](*args))
    assert len(results[0]) == len(results[1]) and all(torch.equal(a, b) for a, b in zip(*results))


def test_parts():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(merged(fuse(with_epilogues, tuple(normal(*s, dtype=bf16) for s in (
            (32, 136), (40, 136), (40, 136), (56, 136), (40,), (32, 56))))[1])[0])
        kernel = next(k for k in kernels(module) if "siblings" in str(k.attributes[ATTRIBUTE]))
        groups = parts_of(kernel)
        assert sorted(n for g in groups for n in g) == list(range(len(kernel.type.results))) and len(groups) >= 2
        schedule = from_attribute(kernel.attributes[ATTRIBUTE])
        wrong = Siblings(schedule.each, "1", 1, 2)
        with pytest.raises(CompileError, match="independent parts"):
            codegen.generate(kernel, wrong, TARGET)


def test_arms_that_rewrite_tiles_and_others():
    """One consumer: its threads begin with what the arm with the most registers wants."""
    def one_is_scaled(x, w, v, u):
        return F.linear(x, torch.relu(w)), x @ v, F.linear(x, u)

    made = build(one_is_scaled, empty(65, 200), empty(40, 200), empty(200, 72), empty(72, 200))
    assert arms(made) == 3 and len(set(re.findall(r"setmaxnreg\.dec\S+\s+(\d+)", made.ptx))) == 2


@pytest.mark.parametrize("rows, terms", [(128, 513), (512, 1001), (300, 514)])
def test_what_copies_an_operand_stays_apart(rows, terms):
    """Copies for the copy engine are kernels of their own, which are no arms."""
    _, fused, _ = fuse(projections, tuple(torch.zeros(*s) for s in ((rows, terms), *[(768, terms)] * 3)))
    text, _ = merged(fused)
    with idle_context():
        module = ir.Module.parse(text)
        schedules = [from_attribute(k.attributes[ATTRIBUTE]) for k in kernels(module)]
    assert all(s.generator == "bf16x6" or s.each.generator == "simt" for s in schedules)


@pytest.mark.thorough
def test_rows_that_vary(monkeypatch):
    """One launch with schedules for ranges of rows, whose blocks are as many as the most rows of each need."""
    torch.manual_seed(0)
    monkeypatch.setattr(size_ranges, "_GAIN", 0.0)  # ranges even where they gain next to nothing

    def three(x, q, k, v):
        return F.linear(x, q), F.relu(F.linear(x, k)), F.linear(x, v)

    def inputs(rows: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(s) for s in ((rows, 512), (96, 512), (32, 512), (32, 512)))

    model = SimulatedRows(three, inputs(4), ({0: torch.export.Dim("n", min=1, max=8)}, None, None, None))
    assert 'generator = "siblings"' in model.text and 'generator = "by_size"' in model.text
    for rows in (1, 2, 3, 5, 8):
        args = inputs(rows)
        verdict = check(model, three, args)
        assert verdict.right, f"{rows}: {verdict}"
