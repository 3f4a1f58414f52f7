"""flex_attention by the lists of its block mask against float64, where lists and mask say the same and where they do not."""

import pytest
import torch
from flex_block_cases import cases

import inferno

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU")


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("width, dtype", [(128, torch.bfloat16), (64, torch.float16)])
@pytest.mark.parametrize("name", cases())
def test_lists(name, width, dtype):
    case = cases(width, dtype, "cuda")[name]()
    compiled = inferno.compile(case, case.args, fallback=False)
    found, exact = compiled(*case.args), case.exact()
    found = found if isinstance(found, tuple) else (found,)
    assert (found[0].double() - exact[0]).norm() <= 4 * torch.finfo(dtype).eps * exact[0].norm()
    if len(found) > 1:
        assert torch.allclose(found[1].double(), exact[1], rtol=1e-5, atol=1e-5)
    for _ in range(3):
        again = compiled(*case.args)
        assert torch.equal(again[0] if isinstance(again, tuple) else again, found[0])
    assert "_lists" in compiled.ir("ptx")


def test_torch_compile():
    case = cases(device="cuda")["by hand"]()
    compiled = torch.compile(case, backend="inferno", fullgraph=True, options={"fallback": False})
    with torch.no_grad():
        found, exact = compiled(*case.args), case.exact()[0]
    assert (found.double() - exact).norm() <= 4 * torch.finfo(torch.bfloat16).eps * exact.norm()
