"""Kernels of running sums, products and extrema that read each element once and write each result once.

Threads scan what they hold in registers; what lies in front comes by shuffles from the lanes of a warp, by shared memory from its other warps, and
from other tiles of the row because a block walks all of them, or by a look back at what other blocks have left.
"""

from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, device_module_of, gpu_function, index_width, integers_for, parameters_of, stored_type
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.nvvm.flagged_words import add_clearing, launch_cleared, word_type
from inferno.codegen.scans.look_back import LookBack, words_of
from inferno.codegen.scans.scan_across import Across
from inferno.codegen.scans.scan_along import Along
from inferno.errors import CompileError
from inferno.mlir import func, ir, walk
from inferno.schedule.scans.scan_schedule import Scans
from inferno.schedule.scans.scans import read, read_sized
from inferno.target import Target



def generate(kernel: func.FuncOp, schedule: Scans, target: Target) -> None:
    """Add the ``gpu.module`` of a scan, and make ``kernel`` its launcher."""
    c, s, name = read(kernel, target) or read_sized(kernel, target), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} is no scan of a tensor")
    if not s.fits(c):
        raise CompileError(f"@{name}: {s} does not fit {c.outer} x {c.length} x {c.inner}")
    for op in (*(step.generic for step in c.steps), *walk(c.kernel.operation, "tm_tensor.scan")):
        expand_math(op)
    emitter = (Along if c.along else Across)(c, s)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    left = 0 if isinstance(s.blocks(c), int) or not s.group else s.most_left(c)
    words = words_of(s.chains(c), s.tiles(c), s.columns(c), s.group, c.combiner, left) if s.group else None
    work = s.chains(c) * s.tiles(c) * s.tile(c) * (1 if c.along else s.lanes * s.vector) * 2
    width = index_width(buffers, work, words.most if words else 0)
    total = stored_type(c.combiner.total)
    shared = [(n, total) for n in s.arrays(c)]
    if words:
        buffers = [*buffers, Buffer(word_type(), words.most, False)]
        shared += [(s.columns(c), total), (1, ir.IntegerType.get_signless(32))]
    waiting = s.waiting_bytes(c)
    with gpu_function(kernel, buffers, s.threads, shared, s.resident, dynamic=waiting > 0) as function:
        ints = integers_for(kernel, width, function.buffers)
        back = LookBack(words, c.combiner, s.threads, ints, function.buffers[-1], *function.shared[-2:]) if words else None
        emitter.emit(ints, function.buffers, function.shared, function.dynamic, back)
    device = device_module_of(kernel)
    if words:
        add_clearing(device, f"{name}_clear", words.count, words.most)
    with launcher(kernel) as arguments:
        parameters = [parameter(a) for a in arguments]
        if words:
            parameters.append(launch_cleared(f"{name}_gpu", f"{name}_clear", words.count))
        launch(f"{name}_gpu", name, parameters, (s.blocks(c), 1, 1), (s.threads, 1, 1), shared=waiting)
