"""Convolutions with few terms on a GPU: the numbers of kernels in any layout, with schedules of all kinds, and of whole models."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_close_to_float64, assert_right, check, poison_memory

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from window_cases import BANDS, NAMED, STAGED, Case, drawn, parsed

from inferno.schedule.convolution import band_windows, staged_windows, windows
from inferno.schedule.convolution.band_windows import BandWindows
from inferno.tools.ir_program import IrProgram

MODELS = {  # a batch norm in front of an activation, a residual, and what a layer norm reads
    "mobilenet": (lambda c: torch.nn.Sequential(torch.nn.Conv2d(c, c, 3, 2, 1, groups=c, bias=False), torch.nn.BatchNorm2d(c), torch.nn.ReLU6()), 96, 56),
    "efficientnet": (lambda c: torch.nn.Sequential(torch.nn.Conv2d(c, c, 5, 1, 2, groups=c, bias=False), torch.nn.BatchNorm2d(c), torch.nn.SiLU()), 240, 28),
    "convnext": (lambda c: torch.nn.Sequential(torch.nn.Conv2d(c, c, 7, 1, 3, groups=c)), 192, 28),
    "resnext": (lambda c: torch.nn.Sequential(torch.nn.Conv2d(c, c, 3, 1, 1, groups=32, bias=False), torch.nn.BatchNorm2d(c), torch.nn.ReLU()), 128, 28),
    "stem": (lambda c: torch.nn.Sequential(torch.nn.Conv2d(c, 32, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.SiLU()), 3, 112),
}
SIZES = {
    "mobilenet 3x3": Case((4, 144, 56, 56), (1, 1, 3, 3), padding=1),
    "mobilenet 3x3 by 2, first": Case((2, 96, 112, 112), (1, 1, 3, 3), 2, 1, last=False),
    "efficientnet 5x5 by 2": Case((2, 240, 28, 28), (1, 1, 5, 5), 2, 2),
    "7x7 f32": Case((2, 96, 56, 56), (1, 1, 7, 7), padding=3, element="f32"),
    "7x7 f32, first": Case((2, 96, 56, 56), (1, 1, 7, 7), padding=3, element="f32", last=False),
    "7x7, small": Case((3, 768, 7, 7), (1, 1, 7, 7), padding=3),
}
LARGE = {
    "convnext 56": Case((2, 96, 56, 56), (1, 1, 7, 7), padding=3),
    "convnext 14": Case((5, 384, 14, 14), (1, 1, 7, 7), padding=3, element="f16"),
}


def right(folder: Path, case: Case, generator: str, schedule: object = None) -> None:
    path = folder / "convolution.mlir"
    path.write_text(case.text(schedule=schedule))
    compiled = IrProgram.read(path, "sm_90a")
    assert f'generator = "{generator}"' in compiled.program.stages["scheduled"]
    inputs = [x.cuda() for x in case.inputs()]
    poison_memory()
    (found,), (again,) = (compiled(*case.arguments(*inputs)) for _ in range(2))
    assert torch.equal(found, again), "two runs differ"
    assert_close_to_float64(case.result(found), case.eager, tuple(inputs))


@pytest.mark.parametrize("name", {**NAMED, **SIZES})
@pytest.mark.parametrize("seed", range(4))
def test_schedules(tmp_path, name, seed):
    case = {**NAMED, **SIZES}[name]
    right(tmp_path, case, "windows", drawn(case, windows, seed))


@pytest.mark.parametrize("name", {**BANDS, **LARGE})
@pytest.mark.parametrize("seed", range(3))
def test_tensor_cores(tmp_path, name, seed):
    case = {**BANDS, **LARGE}[name]
    right(tmp_path, case, "band_windows", drawn(case, band_windows, seed))


@pytest.mark.parametrize("name", STAGED)
def test_rows_that_are_brought(tmp_path, name):
    case, schedule = STAGED[name]
    right(tmp_path, case, "staged_windows", schedule)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_brought_by_schedules(tmp_path, name, seed):
    assert parsed(SIZES[name], staged_windows) is not None
    right(tmp_path, SIZES[name], "staged_windows", drawn(SIZES[name], staged_windows, seed))


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_stays_in_its_windows(tmp_path, number):
    case = Case((2, 64, 14, 14), (1, 1, 7, 7), padding=3)
    path = tmp_path / "convolution.mlir"
    path.write_text(case.text(schedule=BandWindows(2, 7)))
    compiled = IrProgram.read(path, "sm_90a")
    inputs = [x.cuda() for x in case.inputs()]
    inputs[0][1, 5, 4, 3] = number
    assert 'generator = "band_windows"' in compiled.program.stages["scheduled"]
    found, wanted = case.result(compiled(*case.arguments(*inputs))[0]), case.eager(*inputs)
    assert torch.equal(found.isnan(), wanted.isnan()) and torch.equal(found.isinf(), wanted.isinf())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 8])
def test_models(name, dtype, batch):
    make, channels, size = MODELS[name]
    model = make(channels).eval().to("cuda", dtype, memory_format=torch.channels_last)
    image = torch.randn(batch, channels, size, size, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        compiled = assert_right(model, (image,))
    assert "windows" in compiled.ir("scheduled")


@pytest.mark.parametrize("window, dtype", [(3, torch.bfloat16), (7, torch.float32)])
def test_any_number_of_images(window, dtype, monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    torch.manual_seed(0)
    model = torch.nn.Conv2d(48, 48, window, padding=window // 2, groups=48).eval().to("cuda", dtype, memory_format=torch.channels_last)
    x = torch.randn(9, 48, 28, 28, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        compiled = assert_right(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))
        assert '"windows"' in compiled.ir("scheduled")
        for images in (1, 64):
            many = torch.randn(images, 48, 28, 28, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
            assert check(compiled, model, (many,)).right


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("window, stride, dilation", [(7, 1, 1), (3, 2, 1), (3, 1, 2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
def test_images_of_any_size(layout, window, stride, dilation, dtype):
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(48, 48, window, stride, window // 2 * dilation, dilation, 48)
    model = torch.nn.Sequential(convolution, torch.nn.SiLU()).eval().to("cuda", dtype, memory_format=layout)
    x = torch.randn(3, 48, 28, 30, device="cuda", dtype=dtype).to(memory_format=layout)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        compiled = assert_right(model, (x,), dynamic_shapes=({2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO},))
        assert '"windows"' in compiled.ir("scheduled")
        for height, width in ((5, 6), (97, 64), (12, 130)):
            other = torch.randn(3, 48, height, width, device="cuda", dtype=dtype).to(memory_format=layout)
            assert check(compiled, model, (other,)).right


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_signals_of_any_length(dtype):
    torch.manual_seed(0)
    model = torch.nn.Conv1d(64, 64, 4, padding=3, groups=64).eval().to("cuda", dtype)
    x = torch.randn(4, 64, 100, device="cuda", dtype=dtype)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        compiled = assert_right(model, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO},))
        assert '"windows"' in compiled.ir("scheduled")
        for images, length in ((2, 7), (9, 1001)):
            assert check(compiled, model, (torch.randn(images, 64, length, device="cuda", dtype=dtype),)).right
