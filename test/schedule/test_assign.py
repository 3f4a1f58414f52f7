"""Who is asked for a kernel, and what is said of those that cannot answer."""

import pytest

from inferno.mlir import ir, parse
from inferno.runtime.report import _said
from inferno.schedule.assign import UNDECIDED, assign_schedules, kernels
from inferno.schedule.maps import elementwise
from inferno.schedule.scans import scans
from inferno.symbolic import Undecided

SCAN = """
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %e = tensor.empty() : tensor<8x6xf32>
  %0 = call @running(%x, %e) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
func.func private @running(%x: tensor<8x6xf32>, %to: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %z = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8xf32>
  %last = linalg.fill ins(%z : f32) outs(%t : tensor<8xf32>) -> tensor<8xf32>
  %s:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<8x6xf32>) outs(%to, %last : tensor<8x6xf32>, tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.addf %a, %b : f32
    tm_tensor.yield %v : f32
  } -> tensor<8x6xf32>, tensor<8xf32>
  return %s#0 : tensor<8x6xf32>
}
"""


def undecided(kernel, target):
    raise Undecided("whether s0 < 8 depends on the call")


@pytest.mark.parametrize("asked, said", [((scans,), "scans: whether s0 < 8 depends on the call"), ((), None)])
def test_what_could_not_be_asked(monkeypatch, asked, said):
    for module in asked:
        monkeypatch.setattr(module, "choose", undecided)
    module = parse(SCAN)
    with module.context, ir.Location.unknown():
        assign_schedules(module, "sm_90a")
    (kernel,) = kernels(module)
    generator = ir.StringAttr(kernel.attributes["inferno.schedule"]["generator"]).value
    assert generator == ("universal" if asked else "scans")
    assert (ir.StringAttr(kernel.attributes[UNDECIDED]).value if UNDECIDED in kernel.attributes else None) == said
    assert _said(str(module), "undecided").get("running") == said


def test_who_comes_later_is_asked(monkeypatch):
    """What another generator takes says nothing of those that could not be asked."""
    monkeypatch.setattr(elementwise, "choose", undecided)
    module = parse(SCAN)
    with module.context, ir.Location.unknown():
        assign_schedules(module, "sm_90a")
    assert not _said(str(module), "undecided")
