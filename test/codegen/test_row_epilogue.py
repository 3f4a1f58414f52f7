"""Operations on rows in the registers of a warpgroup, on the simulator: the sums are read from memory in the place of being multiplied."""

import numpy as np
import pytest
import torch
from checks import assert_close_to_float64
from row_cases import CASES, operands, scheduled
from simulated_arithmetic import stored_dtype
from simulated_memory import Memory
from simulated_plan import to_numpy, to_torch, torch_dtype
from warp_simulator import WarpSimulation

from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.matmul.row_epilogue import RowEpilogue
from inferno.codegen.matmul.wgmma import prepare_bodies
from inferno.codegen.matmul.wgmma_epilogue import Warpgroup
from inferno.codegen.nvvm.builder import Words, device_kernel, device_module, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import ir, idle_context, walk
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.row_contraction import parse_rows
from inferno.schedule.matmul.wgmma_rows import WgmmaRows
from inferno.schedule.tiles.tiling import tile_contraction


def simulate(function, args):
    """The results of a function whose only kernel is a contraction of the first two of ``args`` and what follows it."""
    text = scheduled(function, args)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        call, kernel = walk(module, "func.call")[0], kernels(module)[0]
        places = [v.arg_number if isinstance(v, ir.BlockArgument) else None for v in call.operands]
        c = parse_rows(kernel)
        prepare_bodies(c)
        for step in c.steps:
            recognise_maximum(step.generic)
            expand_math(step.generic)
        tiling = tile_contraction(c, 2, only_along_k=False)
        schedule = WgmmaRows(64, -(-c.N // 8) * 8, 2, 1)
        tiles, written = -(-c.M // 64), {d.access.argument: d.access for d in c.destinations}
        plain = {**{a.argument: a.element for a in c.extras}, **{n: a.element for n, a in written.items()}}
        with device_module(kernel) as device_block:
            parameters = ["!llvm.ptr<1> {llvm.noalias, llvm.readonly}", *("!llvm.ptr<1> {llvm.noalias}" for _ in plain)]
            with device_kernel(device_block, "rows", parameters, 128) as device:
                words = Words({})
                thread, tile = special_register("tid.x"), special_register("ctaid.x")
                warp, lane = words.shr(thread, 5), words.mask(thread, 31)
                tensors = {n: Elements(words, p, e, n not in written) for (n, e), p in zip(plain.items(), device.parameters[1:])}
                epilogue = RowEpilogue(words, c, tiling, schedule, tensors, Warpgroup(0, thread, warp, lane, 0), {})
                m0 = words.mul(tile, 64)
                epilogue.begin([], m0, 0)
                sums = Elements(words, device.parameters[0], ir.F32Type.get())
                row = words.add(words.add(m0, words.shl(warp, 4)), words.shr(lane, 2))
                first = words.add(words.mul(row, schedule.tile_n), words.shl(words.mask(lane, 3), 1))
                each = [(j, half, e) for j in range(schedule.tile_n // 8) for half in range(2) for e in range(2)]
                epilogue.emit([[sums.read(first, 8 * half * schedule.tile_n + 8 * j + e) for j, half, e in each]])
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        exact = torch.zeros(64 * tiles, schedule.tile_n)
        exact[:c.M, :c.N] = (args[0].double() @ args[1].double().t()).float()
        memory = {n: Memory(to_numpy(args[places[n]]), str(e) == "bf16") for n, e in plain.items() if n not in written}
        for n, access in written.items():
            count, dtype = torch.Size(access.shape).numel(), stored_dtype(str(access.element))
            memory[n] = Memory(np.full(8 * count, 0xFF, np.uint8).view(dtype)[:count], str(access.element) == "bf16")
        WarpSimulation(walk(module, "llvm.func")[0], tiles, 128, [Memory(to_numpy(exact), False), *(memory[n] for n in plain)]).run()
        return [to_torch(memory[n].data, torch_dtype(str(a.element))).view(a.shape) for n, a in written.items()]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", [n for n in CASES if n != "transposed"])
def test_cases(name):
    args = operands(lambda *shape: torch.randn(shape).bfloat16(), 130, 36, 96)
    found = simulate(CASES[name], args)
    expected = CASES[name](*args)
    found = [f.view(e.shape) for f, e in zip(found, expected if isinstance(expected, tuple) else [expected], strict=True)]
    assert_close_to_float64(tuple(found) if len(found) > 1 else found[0], CASES[name], args)
