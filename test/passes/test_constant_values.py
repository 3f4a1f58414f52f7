"""The bytes of constants, against NumPy's or spelled out."""

import numpy as np
import pytest

from inferno.errors import PassError
from inferno.mlir import ir, idle_context
from inferno.passes.constant_values import constant_values
from inferno.passes.lift_constants import lift_constants, lifted_values
from inferno.passes.manager import run_pipeline


def read(text: str) -> bytes:
    with idle_context():
        return constant_values(ir.Attribute.parse(text), ir.Module.parse(""))


@pytest.mark.parametrize("element,dtype", [
    ("i8", np.int8), ("i16", np.int16), ("i32", np.int32), ("i64", np.int64), ("ui8", np.uint8), ("index", np.int64),
    ("f16", np.float16), ("f32", np.float32), ("f64", np.float64),
])
def test_numbers(element, dtype):
    suffix = ".0" if element.startswith("f") else ""
    values = ", ".join(f"[{a}{suffix}, {b}{suffix}]" for a, b in [(1, 2), (3, 100), (7, 0)])
    assert read(f"dense<[{values}]> : tensor<3x2x{element}>") == np.array([[1, 2], [3, 100], [7, 0]], dtype).tobytes()


@pytest.mark.parametrize("text,expected", [
    ("dense<[true, false, true]> : tensor<3xi1>", "010001"),
    ("dense<[1.0, -2.5, 0x7FC1]> : tensor<3xbf16>", "803f20c0c17f"),
    ("dense<[1.0, -2.5]> : tensor<2xf8E4M3FN>", "38c2"),
    ("dense<[1.0, -2.5]> : tensor<2xf8E5M2>", "3cc1"),
    ("dense<1.0> : tensor<2xbf16>", "803f803f"),
    ("dense<0x7FC00001> : tensor<1xf32>", "0100c07f"),
])
def test_bits(text, expected):
    assert read(text).hex() == expected


@pytest.mark.parametrize("text", ["dense<[1, -2]> : tensor<2xi4>", "dense_resource<missing> : tensor<2xf32>"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(PassError, match="constant-values"):
        read(text)


RESOURCE = """
func.func @main() -> tensor<2xf32> {{
  %0 = arith.constant dense_resource<blob> : tensor<2xf32>
  return %0 : tensor<2xf32>
}}
{{-# dialect_resources: {{ builtin: {{ blob: "0x04000000{data}" }} }} #-}}
"""


@pytest.mark.parametrize("data,expected", [("0000803F00000040", [1, 2]), ("00000040", [2, 2])])
def test_resources(data, expected):
    with idle_context():
        module = ir.Module.parse(RESOURCE.format(data=data))
        lift_constants(module)
        assert lifted_values(module) == [("f32", (2,), np.array(expected, np.float32).tobytes())]


def test_a_resource_of_another_size_is_refused():
    with idle_context():
        module = ir.Module.parse(RESOURCE.format(data="0000803F0000004000000040"))
        lift_constants(module)
        with pytest.raises(PassError, match="12 bytes"):
            lifted_values(module)


def test_values_survive_the_way_to_kernels():
    with idle_context():
        module = ir.Module.parse("func.func @main() -> tensor<2xi64> {\n%0 = arith.constant dense<[5, 6]> : tensor<2xi64>\nreturn %0 : tensor<2xi64>}")
        run_pipeline(module, "lift-constants,outline-kernels,deduplicate-kernels")
        again = ir.Module.parse(str(module))
        assert lifted_values(again) == [("i64", (2,), np.array([5, 6]).tobytes())]
