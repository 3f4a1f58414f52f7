"""torch's types for MLIR's element types."""

import torch

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
    "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "si8": torch.int8, "i1": torch.bool, "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
}
