"""Two contractions that share an operand, as one kernel: the structure of what is emitted, and that ptxas takes it without spills."""

import re

import pytest
from kernels import assembled, build, choose, tensor

from inferno.errors import CompileError
from inferno.schedule.matmul.dual import Dual

SWIGLU = """%n = arith.negf %g : f32
  %e = math.exp %n : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %e, %one : f32
  %s = arith.divf %g, %d : f32
  %p = arith.mulf %s, %u : f32
  %y0 = arith.truncf %p : f32 to bf16"""


def dual(
    m: int, k: int, n: int, layout: str = "nk", second: str = "", body: str = SWIGLU, results: tuple[str, ...] = ("bf16",), element: str = "bf16",
    extras: tuple[tuple[str, str], ...] = (),
) -> str:
    """``body`` computes %y0, %y1, ... of the types ``results`` from the sums %g and %u and extras %e0, ..., given as (letters, type);
    ``layout`` and ``second`` are the letters of the factors."""
    sizes, extend = {"m": m, "k": k, "n": n}, "%q = arith.mulf %a, %b : f32"
    if element != "f32":
        extend = f"""%l = arith.extf %a : {element} to f32
          %r = arith.extf %b : {element} to f32
          %q = arith.mulf %l, %r : f32"""

    def type_(letters: str, of: str) -> str:
        return tensor(tuple(sizes[d] for d in letters), of)

    def map_(letters: str, over: str = "mnk") -> str:
        return f"affine_map<({','.join(over)}) -> ({','.join(letters)})>"

    def product(name: str, factor: str, letters: str) -> str:
        return f"""%{name}e = tensor.empty() : {type_("mn", "f32")}
        %{name}f = linalg.fill ins(%zero : f32) outs(%{name}e : {type_("mn", "f32")}) -> {type_("mn", "f32")}
        %{name}s = linalg.generic {{indexing_maps = [{map_("mk")}, {map_(letters)}, {map_("mn")}],
            iterator_types = ["parallel", "parallel", "reduction"]}}
            ins(%x, {factor} : {type_("mk", element)}, {type_(letters, element)}) outs(%{name}f : {type_("mn", "f32")}) {{
        ^bb0(%a: {element}, %b: {element}, %c: f32):
          {extend}
          %t = arith.addf %c, %q : f32
          linalg.yield %t : f32 }} -> {type_("mn", "f32")}"""

    arguments = [f"%x: {type_('mk', element)}", f"%w: {type_(layout, element)}", f"%v: {type_(second or layout, element)}"]
    arguments += [f"%a{i}: {type_(*e)}" for i, e in enumerate(extras)] + [f"%o{i}: {type_('mn', t)}" for i, t in enumerate(results)]
    types = ", ".join(type_("mn", t) for t in results)
    read = ["mn", "mn", *(e[0] for e in extras)]
    maps = ", ".join(map_(letters, "mn") for letters in (*read, *["mn"] * len(results)))
    inputs = ["%gs", "%us", *(f"%a{i}" for i in range(len(extras)))]
    kinds = [type_("mn", "f32")] * 2 + [type_(*e) for e in extras]
    block = ["%g: f32", "%u: f32", *(f"%e{i}: {e[1]}" for i, e in enumerate(extras)), *(f"%z{i}: {t}" for i, t in enumerate(results))]
    return f"""func.func private @dual({", ".join(arguments)}) -> ({types}) {{
      %zero = arith.constant 0.0 : f32
      {product("g", "%w", layout)}
      {product("u", "%v", second or layout)}
      %y:{len(results)} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
          ins({", ".join(inputs)} : {", ".join(kinds)}) outs({", ".join(f"%o{i}" for i in range(len(results)))} : {types}) {{
        ^bb0({", ".join(block)}):
          {body}
          linalg.yield {", ".join(f"%y{i}" for i in range(len(results)))} : {", ".join(results)} }} -> ({types})
      return {", ".join(f"%y#{i}" for i in range(len(results)))} : {types}
    }}"""


def products(built) -> set[str]:
    return set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k\d+\.f32\.\w+)", built.ptx))


SCHEDULES = [
    Dual(128, 128, 4, 2), Dual(256, 64, 4, 2), Dual(128, 64, 6, 2), Dual(128, 32, 8, 2), Dual(64, 64, 8, 1), Dual(64, 32, 12, 1),
    Dual(64, 16, 12, 1), Dual(128, 128, 4, 2, cluster=2), Dual(64, 128, 4, 2, pingpong=True), Dual(64, 32, 12, 1, persistent=False, split=4),
    Dual(64, 16, 12, 1, lhs_rows=16, chunks=2),
]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize(
    "schedule", SCHEDULES, ids=lambda s: f"{s.tile_m}x{s.tile_n}{'c' * (s.cluster - 1)}{'p' * s.pingpong}{'s' * (s.split - 1)}{'r' * (s.lhs_rows > 0)}")
def test_no_schedule_spills(schedule, layout):
    rows = schedule.lhs_rows or 600
    built = build(dual(rows, 2056, 520, layout), "dual", schedule)
    assembled(built)
    # One product for both factors, and as many boxes of the one as of the other.
    assert products(built) == {f"m64n{2 * schedule.tile_n}k16.f32.bf16"}
    panels = 1 if layout == "nk" else -(-schedule.tile_n // 64) // schedule.cluster
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == schedule.chunks * (1 + 2 * max(1, panels))
    assert (".multicast" in built.ptx) == (schedule.cluster > 1)
    assert built.count(r"ex2\.approx") > 0 and built.gpu.count('"inferno.launch"') == 1


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("m, layout", [(1, "nk"), (4, "kn"), (16, "nk"), (64, "kn"), (256, "nk"), (1024, "kn"), (2048, "nk")])
def test_what_is_chosen(m, layout):
    built = build(dual(m, 4096, 1408, layout), "dual")
    assembled(built)
    assert products(built) == {f"m64n{2 * built.schedule.tile_n}k16.f32.bf16"}


def test_wide_tiles_where_there_are_many():
    s = choose(dual(4096, 4096, 11008), "dual")
    assert s.tile_m >= 128 and s.tile_m * s.tile_n >= 128 * 112


def test_extras_and_results():
    body = """%gb = arith.addf %g, %e0 : f32
      %ub = arith.addf %u, %e1 : f32
      %y1 = arith.truncf %gb : f32 to bf16
      %y2 = arith.truncf %ub : f32 to bf16
      %p = arith.mulf %gb, %ub : f32
      %y0 = arith.addf %p, %e2 : f32"""
    built = build(dual(200, 136, 264, body=body, results=("f32", "bf16", "bf16"), extras=(("n", "f32"), ("n", "f32"), ("mn", "f32"))), "dual")
    assembled(built)
    assert built.count("stmatrix") > 0 and built.count(r"st\.shared\.v2\.b32") > 0


def test_takes_only_two_of_one_layout_on_tensor_cores():
    assert choose(dual(128, 128, 128), "dual") and choose(dual(128, 128, 128, element="f16"), "dual")
    assert choose(dual(128, 128, 128, "nk", "kn"), "dual") is None
    assert choose(dual(128, 130, 128), "dual") is None  # rows that the copy engine cannot read
    assert choose(dual(128, 128, 128).replace("ins(%x, %v :", "ins(%v, %x :"), "dual") is None  # nothing is shared
    assert choose(dual(128, 128, 128, element="f32", body="%y0 = arith.mulf %g, %u : f32", results=("f32",)), "dual") is None


@pytest.mark.parametrize("schedule", [
    Dual(128, 96, 4, 2), Dual(128, 128, 4, 2, stream=True), Dual(128, 64, 4, 2, persistent=False, split=2, spread=True),
])
def test_what_it_does_not_do_is_an_error(schedule):
    with pytest.raises(CompileError, match="cuts a panel of the second factor, or deals"):
        build(dual(128, 512, 256, "kn"), "dual", schedule)
