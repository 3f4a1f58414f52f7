"""What ``@main`` inserts into a tensor lies there from the beginning."""

import pytest

from inferno.errors import PassError
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.plan.data import check_plan
from inferno.runtime.plan.plan import read_plan

PIPELINE = "assign-schedules{target=sm_90a},generate-kernels{target=sm_90a},plan-launches,plan-memory"
KERNEL = """
func.func private @k(%x: tensor<64x64xf32>, %o: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x64xf32>) outs(%o : tensor<64x64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %v = math.exp %p : f32
    linalg.yield %v : f32
  } -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""
SQUARE, PAIR = "tensor<64x64xf32>", "tensor<2x64x64xf32>"


def plan_of(body: str, results: str):
    """The plan of a program of two arguments %x and %y, with tensors %e0 to %e2 for results and %d for two of them."""
    empties = "".join(f"%e{i} = tensor.empty() : {SQUARE}\n" for i in range(3)) + f"%d = tensor.empty() : {PAIR}\n"
    main = f"func.func @main(%x: {SQUARE}, %y: {SQUARE}) -> ({results}) {{\n{empties}{body}\n}}"
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(f"#points = affine_map<(d0, d1) -> (d0, d1)>\n{main}\n{KERNEL}")
        run_pipeline(module, PIPELINE)
        return read_plan(str(module))


def call(name: str, source: str, out: str) -> str:
    return f"%{name} = call @k(%{source}, %{out}) : ({SQUARE}, {SQUARE}) -> {SQUARE}\n"


def insert(name: str, value: str, whole: str, place: str) -> str:
    return f"%{name} = tensor.insert_slice %{value} into %{whole}[{place}] [1, 64, 64] [1, 1, 1] : {SQUARE} into {PAIR}\n"


STACK = call("a", "x", "e0") + call("b", "a", "e1") + insert("s", "a", "d", "0, 0, 0") + insert("t", "b", "s", "1, 0, 0")


def test_parts_of_a_result():
    plan = plan_of(STACK + f"return %t : {PAIR}", PAIR)
    first, second = plan.steps
    assert [(b.place, b.index, b.offset) for b in first.parameters] == [("argument", 0, 0), ("result", 0, 0)]
    assert [(b.place, b.index, b.offset) for b in second.parameters] == [("result", 0, 0), ("result", 0, 64 * 64 * 4)]
    assert plan.workspace_bytes == 0 and plan.outputs[0].overwrites == ()
    check_plan(plan)


def test_parts_of_the_workspace():
    flat = f"%f = tensor.extract_slice %t[0, 0, 0] [1, 64, 64] [1, 1, 1] : {PAIR} to {SQUARE}\n"
    with pytest.raises(PassError, match="tensor.extract_slice in @main"):
        plan_of(STACK + flat + call("c", "f", "e2") + f"return %c : {SQUARE}", SQUARE)
    plan = plan_of(STACK + call("c", "b", "e2") + f"return %c : {SQUARE}", SQUARE)
    (_, first), (_, second), (third, _) = (s.parameters for s in plan.steps)
    assert (first.place, first.index) == ("workspace", 0) and (second.place, second.index) == ("workspace", 64 * 64 * 4) and third == second
    assert plan.workspace_bytes == 2 * 64 * 64 * 4


STRIPE = (
    f"%v = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 32, 64] : {SQUARE} into tensor<2x32x64xf32>\n"
    f"%s = tensor.insert_slice %v into %d[0, 0, 0] [2, 32, 64] [1, 1, 1] : tensor<2x32x64xf32> into {PAIR}\nreturn %s : {PAIR}"
)


@pytest.mark.parametrize("body", [
    insert("s", "x", "d", "0, 0, 0") + f"return %s : {PAIR}",  # an argument
    STACK.replace("%b into", "%a into") + f"return %t : {PAIR}",  # twice
    call("a", "x", "e0") + STRIPE,  # whose elements lie apart
])
def test_what_cannot_lie_there(body):
    with pytest.raises(PassError, match="expected a new tensor that is inserted once, to where its elements lie together"):
        plan_of(body, PAIR)
