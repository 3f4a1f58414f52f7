"""Launch plans as plain data, and the checks of plans that come from files."""

import dataclasses
import json

import pytest

from inferno.errors import PlanError
from inferno.library_matmul import LibraryMatmul
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Output, Plan, TensorMap
from inferno.runtime.plain_data import reader, to_data
from inferno.runtime.plan.data import check_plan, plan_from_dict
from inferno.symbolic import Size, Symbol, floordiv, maximum, size_of

ARGUMENT, SCRATCH, RESULT = (
    Buffer("argument", 0, (32, 64), "bf16"), Buffer("workspace", 512, (64,), "f32"), Buffer("result", 0, (64,), "f32"),
)
MAP = TensorMap(ARGUMENT, (64, 32), (2, 128), (64, 8), "bf16", 128, 256)
LAUNCH = Launch("k::k", (4, 2, 1), (128, 1, 1), (1, 1, 1), 1000, (MAP, SCRATCH, RESULT), ("relu (model.py:3)",))
MATMUL = LibraryMatmul((1, 8, 4, 16), (0, 16, 1), (0, 1, 16), (0, 4, 1), alpha=0.5)
CALL = LibraryCall("cublaslt", MATMUL.options(), (ARGUMENT, ARGUMENT, SCRATCH, RESULT), (), "mm")
PLAN = Plan((LAUNCH, CALL, LAUNCH), (ARGUMENT,), (Output((64,), "f32", result=0), Output((2048,), "bf16", argument=0)), 1024)


def test_a_plan_survives_json():
    text = json.dumps(PLAN.as_dict(), allow_nan=False)
    assert plan_from_dict(json.loads(text)) == PLAN
    check_plan(PLAN)


def test_real_plans_survive_json_and_the_checks():
    import torch

    import inferno

    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 32))
    for target in ("sm_90a", "cpu"):
        compiled = inferno.compile(net, (torch.randn(64, 64),), target=target)
        from inferno.runtime.plan.plan import read_plan

        plan = read_plan(compiled.program.stages["gpu"])
        assert len(plan.steps) > 1 and plan_from_dict(json.loads(json.dumps(plan.as_dict()))) == plan
        if target != "cpu":  # whose programs have no package
            check_plan(plan)


def changed(path: str, value):
    """The plan's data with one thing changed; ``path`` like ``steps.0.grid``; the value ... removes it."""
    data = json.loads(json.dumps(PLAN.as_dict()))
    *way, last = path.split(".")
    place = data
    for part in way:
        place = place[int(part) if isinstance(place, list) else part]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return data


@pytest.mark.parametrize(("path", "value", "says"), [
    ("steps", ..., "plan: a Plan without steps"),
    ("steps", {}, "plan.steps: expected a list"),
    ("steps.0.is", "Evil", "plan.steps: expected Launch or LibraryCall, got a Evil"),
    ("steps.0.surprise", 1, "unknown field 'surprise' of a Launch"),
    ("steps.0.grid", [1, 2], "plan.steps.grid: expected a list of 3, got a list of 2"),
    ("steps.0.grid", [1, 2, "x"], "got 'x'"),
    ("steps.0.shared", True, "expected int or Size, got True"),
    ("steps.0.shared", 2**70, "expected int"),
    ("steps.0.parameters.0.buffer", None, "expected a Buffer, got None"),
    ("steps.1.options", [], "expected options by name"),
    ("workspace_bytes", 1.5, "got 1.5"),
])
def test_another_form_is_refused(path, value, says):
    with pytest.raises(PlanError) as error:
        plan_from_dict(changed(path, value))
    assert says in str(error.value)


@pytest.mark.parametrize("data", [None, [], 3, "plan", {"is": "Buffer"}])
def test_what_is_no_plan_is_refused(data):
    with pytest.raises(PlanError, match="expected a Plan"):
        plan_from_dict(data)


def test_deep_nesting_is_refused():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(PlanError, match="too deeply"):
        plan_from_dict(changed("steps.1.options", {"a": deep}))


@pytest.mark.parametrize(("path", "value", "says"), [
    ("workspace_bytes", -1, "its workspace has -1 bytes"),
    ("workspace_bytes", 600, "256 bytes at 512 are not in a workspace of 600"),
    ("steps.0.parameters.1.index", 520, "multiple of 16"),
    ("steps.0.parameters.1.index", -16, "multiple of 16"),
    ("steps.0.parameters.1.shape", [2**40, 2**40], "more bytes than there are"),
    ("steps.0.parameters.1.shape", [-64], "shape (-64,)"),
    ("steps.0.parameters.1.element", "f7", "unknown element type 'f7'"),
    ("steps.0.parameters.1.place", "host", "unknown place 'host'"),
    ("steps.0.parameters.2.index", 7, "it refers to result 7, and there are 2"),
    ("steps.0.parameters.2.index", 1, "result 1 owns no memory"),
    ("steps.0.parameters.2.index", -1, "it refers to result -1"),
    ("steps.0.parameters.2.shape", [65], "260 bytes of result 0, which has 256"),
    ("steps.0.parameters.2.offset", 8, "offset 8 in result 0; it must be a multiple of 16"),
    ("steps.0.parameters.2.offset", 16, "256 bytes at 16 of result 0, which has 256"),
    ("steps.0.parameters.0.buffer.index", 3, "it refers to argument 3, and there are 1"),
    ("steps.0.parameters.0.sizes", [64, 33], "a tensor map over 4224 bytes of a buffer that has 4096"),
    ("steps.0.parameters.0.sizes", [64], "1 to 5 of each"),
    ("steps.0.parameters.0.strides", [2, 120], "multiples of 16"),
    ("steps.0.parameters.0.box", [64, 257], "1 to 256"),
    ("steps.0.parameters.0.swizzle", 16, "swizzle 16"),
    ("steps.0.parameters.0.element", "i1", "a tensor map of i1"),
    ("steps.0.kernel", "k", "expected module::function"),
    ("steps.0.grid", [0, 1, 1], "grid (0, 1, 1)"),
    ("steps.0.grid", [1, 65536, 1], "grid (1, 65536, 1)"),
    ("steps.0.block", [1024, 2, 1], "2048 threads a block"),
    ("steps.0.cluster", [16, 2, 1], "32 blocks a cluster"),
    ("steps.0.shared", -1, "-1 bytes of shared memory"),
    ("steps.0.copies", True, "a copy has two buffers as its parameters"),
    ("steps.1.function", "matmul", "library function 'matmul'; on a GPU there is cublaslt"),
    ("steps.1.options.offsets", [2000, 0, 0, 0, 0], "lhs has 2048 elements"),
    ("steps.1.options.compute", "f64", "step 1 (mm): bf16 times bf16 to f32, which it does not multiply"),
    ("steps.1.options.bias", True, "4 operands; expected lhs, rhs, bias"),
    ("arguments.0.index", 1, "argument 0: it stands for argument 1"),
    ("outputs.1.argument", 5, "it refers to argument 5"),
    ("outputs.1.argument", ..., "neither an argument's memory nor a result's"),
    ("outputs.1.shape", [2047], "4094 bytes seen in a memory of 4096"),
    ("outputs.0.result", 1, "result 1 owns no memory"),
    ("outputs.0.overwrites", [7], "it refers to argument 7"),
    ("outputs.0.overwrites", [0], "cannot take the place of argument 0"),
    ("outputs.1.overwrites", [0], "cannot take the place of argument 0"),
])
def test_numbers_that_do_not_fit_are_refused(path, value, says):
    plan = plan_from_dict(changed(path, value))
    with pytest.raises(PlanError) as error:
        check_plan(plan)
    assert says in str(error.value)


def test_a_field_with_its_default_takes_no_room():
    data = dataclasses.replace(LAUNCH, source=())
    assert "source" not in Plan((data,), (), (), 0).as_dict()["steps"][0]


def test_sizes_that_vary_survive():
    n, m = (size_of(Symbol(name, 1, 4096, 8, 64)) for name in ("s0", "s1"))
    shape = (n, 4, 3 * n * m + 7, floordiv(n + 3, 8), maximum(n, m))
    read = reader(tuple[int | Size, ...])
    assert read(json.loads(json.dumps(to_data(shape))), "shape") == shape


@pytest.mark.parametrize(("part", "field", "value", "says"), [
    (Symbol("s0", 1, 64), "name", "s0); import os; (s0", "a symbol is called"),
    (Symbol("s0", 1, 64), "low", -4, "symbol s0 is from -4 to 64 by 1"),
    (Symbol("s0", 1, 64), "divisor", 0, "symbol s0 is from 1 to 64 by 0"),
    (floordiv(size_of(Symbol("s0", 1, 64)) + 3, 8).terms[0][0][0], "kind", "exec", "a size is made by 'exec'"),
])
def test_sizes_whose_names_are_no_names_are_refused(part, field, value, says):
    with pytest.raises(PlanError) as error:
        reader(type(part))({**to_data(part), field: value}, "size")
    assert says in str(error.value)
