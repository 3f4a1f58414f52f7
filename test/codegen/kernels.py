"""Kernel functions as text for tests of the generators, and the way from them to PTX and ptxas's report."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from inferno.mlir import func, ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import module_of
from inferno.target import Target, find_target
from inferno.targets import nvptx

TARGET = find_target("sm_90a")


@dataclass(frozen=True)
class Built:
    """``schedule`` as chosen, the module after generation as text, the PTX, and, where it is asked for, ptxas's report (None where there is none)."""

    schedule: object
    gpu: str
    ptx: str
    name: str
    target: Target

    @cached_property
    def resources(self) -> nvptx.Resources | None:
        assembled = nvptx.assemble(self.ptx, self.target)
        return assembled[1][self.name] if assembled else None

    def accesses(self, space: str = "global") -> set[str]:
        """The distinct loads and stores in the PTX."""
        return set(re.findall(rf"(?:ld|st)\.{space}[\w.]*", self.ptx))

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.ptx))


def check_arrivals(ptx: str) -> tuple[int, int]:
    """A slot is given back when its loads are done: the copy engine fills it again as soon as all have arrived, and an arrival may overtake
    loads but for a fence.  Returns how many loads from shared memory there are, and arrivals."""
    fenced, products, loads, arrivals = True, False, 0, 0
    for line in ptx.splitlines():
        if "ld.shared" in line:
            fenced, loads = False, loads + 1
        elif "fence.proxy.async" in line:
            fenced = True
        elif "wgmma.wait_group" in line:
            products = True  # the arrival that follows frees a slot of products, which nobody loads from
        elif re.search(r"mbarrier\.arrive(?!\.expect)", line):
            assert fenced or products, line
            products, arrivals = False, arrivals + 1
    return loads, arrivals


def build(text: str, generator: str, schedule: object = None, target: Target = TARGET) -> Built:
    """Schedule, generate and lower the only kernel function of ``text``."""
    context = idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        name = kernel.name.value
        schedule = schedule or import_module(module_of(generator)).choose(kernel, target)
        import_module(module_of(generator, "codegen")).generate(kernel, schedule, target)
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        module.operation.verify()
        generated = str(module)
        ir.Module.parse(generated)
        run_pipeline(module, "inferno-lower")
        device = next(o for o in module.body.operations if o.operation.name == "gpu.module")
        ptx = nvptx.to_ptx(nvptx.llvm_text(device.operation), target)
    return Built(schedule, generated, ptx, name, target)


def assembled(built: Built) -> None:
    """Where there is ptxas, nothing of it is spilled."""
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0


def recorded(choose: Callable[[func.FuncOp, Target], object], target: Target = TARGET) -> tuple[Callable[[func.FuncOp], object], list]:
    """A choice of schedules, for ``SimulatedModel``, and the list of those that it has chosen."""
    chosen = []

    def own(kernel: func.FuncOp) -> object:
        chosen.append(choose(kernel, target))
        return chosen[-1]

    return own, chosen


def choose(text: str, generator: str, target: Target = TARGET) -> object:
    """What ``choose`` says of the only kernel function of ``text``."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return import_module(module_of(generator)).choose(kernels(module)[0], target)


def tensor(shape: tuple[int, ...], element: str) -> str:
    return "tensor<" + "".join(f"{s}x" for s in shape) + element + ">"


def elementwise(
    inputs: list[tuple[tuple[int, ...], str]], output: tuple[tuple[int, ...], str], maps: list[str], dims: str, body: str,
    tables: list[tuple[tuple[int, ...], str]] = (),
) -> str:
    """An all-parallel kernel: the body's arguments are %x0, %x1, ...; ``maps`` ends with the output's; tables are %t0, ..."""
    types = [tensor(*x) for x in inputs]
    arguments = [f"%a{i}: {t}" for i, t in enumerate(types)] + [f"%t{i}: {tensor(*x)}" for i, x in enumerate(tables)]
    block = ", ".join([f"%x{i}: {x[1]}" for i, x in enumerate(inputs)] + [f"%old: {output[1]}"])
    ins = f"ins({', '.join(f'%a{i}' for i in range(len(types)))} : {', '.join(types)})" if types else ""
    affine = ", ".join(f"affine_map<({','.join(dims)}) -> ({m})>" for m in maps)
    parallel = ", ".join(['"parallel"'] * len(dims))
    return f"""func.func private @map({", ".join([*arguments, f"%o: {tensor(*output)}"])}) -> {tensor(*output)} {{
      %r = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{parallel}]}} {ins} outs(%o : {tensor(*output)}) {{
      ^bb0({block}):
        {body}
      }} -> {tensor(*output)}
      return %r : {tensor(*output)}
    }}"""


def unary(operation: str, shape: tuple[int, ...] = (4096, 4096), element: str = "f32") -> str:
    """One input and result; ``operation`` computes %y of type ``element`` from %x0."""
    dims = "abcdef"[:len(shape)]
    body = f"{operation}\nlinalg.yield %y : {element}"
    return elementwise([(shape, element)], (shape, element), [",".join(dims)] * 2, dims, body)


def matmul(m: int, n: int, k: int, element: str = "f32", lhs: str = "m,k", rhs: str = "k,n", batch: int = 0) -> str:
    """relu(lhs @ rhs + bias), accumulated in float32; ``lhs`` and ``rhs`` say in which order the operands' dimensions lie."""
    sizes = {"m": m, "n": n, "k": k}
    lead, b, par = ((batch,), "b,", '"parallel", ') if batch else ((), "", "")
    x, w = (tensor((*lead, *(sizes[d] for d in dims.split(","))), element) for dims in (lhs, rhs))
    out, acc, bias = tensor((*lead, m, n), element), tensor((*lead, m, n), "f32"), tensor((n,), element)
    wide = element != "f32"

    def extend(name: str) -> str:
        return f"%{name}w = arith.extf %{name} : {element} to f32" if wide else f"%{name}w = arith.bitcast %{name} : f32 to f32"

    factor = "w" if wide else ""
    narrow = f"%y = arith.truncf %r : f32 to {element}" if wide else "%y = arith.bitcast %r : f32 to f32"
    return f"""func.func private @mm(%x: {x}, %w: {w}, %bias: {bias}, %o: {out}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {acc}
      %f = linalg.fill ins(%zero : f32) outs(%e : {acc}) -> {acc}
      %0 = linalg.generic {{indexing_maps = [affine_map<({b}m,n,k) -> ({b}{lhs})>, affine_map<({b}m,n,k) -> ({b}{rhs})>,
          affine_map<({b}m,n,k) -> ({b}m,n)>], iterator_types = [{par}"parallel", "parallel", "reduction"]}}
          ins(%x, %w : {x}, {w}) outs(%f : {acc}) {{
        ^bb0(%a: {element}, %c: {element}, %s: f32):
          {extend("a") if wide else ""}
          {extend("c") if wide else ""}
          %p = arith.mulf %a{factor}, %c{factor} : f32
          %t = arith.addf %s, %p : f32
          linalg.yield %t : f32 }} -> {acc}
      %1 = linalg.generic {{indexing_maps = [affine_map<({b}m,n) -> ({b}m,n)>, affine_map<({b}m,n) -> (n)>,
          affine_map<({b}m,n) -> ({b}m,n)>], iterator_types = [{par}"parallel", "parallel"]}}
          ins(%0, %bias : {acc}, {bias}) outs(%o : {out}) {{
        ^bb0(%a: f32, %c: {element}, %old: {element}):
          {extend("c")}
          %p = arith.addf %a, %cw : f32
          %r = arith.maximumf %p, %zero : f32
          {narrow}
          linalg.yield %y : {element} }} -> {out}
      return %1 : {out}
    }}"""
