"""Packages on a GPU: what is loaded gives the bits of what was saved, also where there is no compiler."""

import hashlib
import json

import pytest
import safetensors.torch
import torch
from processes import without_a_compiler
from torch import nn

import inferno
from inferno.errors import InputError, LaunchError, PackageError
from inferno.runtime.package.save import PROGRAM, digest


class Counter(nn.Module):
    """Tied weights, and a buffer that every call writes."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        self.embed, self.norm, self.mix = nn.Embedding(1000, 256), nn.LayerNorm(256), nn.Linear(256, 256)
        self.head = nn.Linear(256, 1000, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.to(dtype=dtype)

    def forward(self, ids, *, scale):
        self.calls.add_(1)
        h = torch.nn.functional.gelu(self.mix(self.norm(self.embed(ids))))
        return {"logits": self.head(h) * scale, "hidden": (h, self.calls + 0)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    model = Counter().cuda().eval()
    ids, scale = torch.randint(1000, (4, 64), device="cuda"), torch.randn((), device="cuda", dtype=torch.bfloat16)
    compiled = inferno.compile(model, (ids,), kwargs={"scale": scale})
    folder = tmp_path_factory.mktemp("packages")
    compiled.save(folder / "net.inferno")  # before the first call: the counter is 0
    out = compiled(ids, scale=scale)
    safetensors.torch.save_file(
        {"ids": ids, "scale": scale, "logits": out["logits"], "hidden": out["hidden"][0], "calls": out["hidden"][1]}, folder / "call.safetensors",
    )
    return compiled, folder, ids, scale


def test_same_bits_and_state(saved):
    compiled, folder, ids, scale = saved
    loaded = inferno.load(folder / "net.inferno")
    assert loaded.device == compiled.device
    held = loaded.state_dict()
    assert all(t.device == compiled.device for t in held.values()) and list(held) == list(compiled.state_dict())
    for count in (1, 2, 3):
        out, expected = loaded(ids, scale=scale), compiled(ids, scale=scale)
        assert torch.equal(out["logits"], expected["logits"]) and torch.equal(out["hidden"][0], expected["hidden"][0])
        assert int(out["hidden"][1]) == int(held["calls"]) == count
    with pytest.raises(InputError, match="ids"):
        loaded(ids.int(), scale=scale)


_ALONE = """
import safetensors.torch
import torch
import inferno

folder = sys.argv[1]
call = safetensors.torch.load_file(f"{folder}/call.safetensors", device="cuda")
loaded = inferno.load(f"{folder}/net.inferno", "cuda:0")
with torch.no_grad():
    out = loaded(call["ids"], scale=call["scale"])
assert torch.equal(out["logits"], call["logits"]) and torch.equal(out["hidden"][0], call["hidden"]) and int(out["hidden"][1]) == 1
print("same")
"""


def test_another_process_without_a_compiler(saved):
    assert without_a_compiler(_ALONE, str(saved[1])) == "same"


def test_another_gpu_is_refused(saved, tmp_path):
    _, folder, *_ = saved
    with safetensors.safe_open(folder / "net.inferno", framework="pt") as file:
        tensors, metadata = {n: file.get_tensor(n) for n in file.keys()}, dict(file.metadata())
    content = json.loads(bytes(tensors[PROGRAM].numpy()))
    capability = torch.cuda.get_device_capability()
    content["target"]["name"] = "sm_80" if capability[0] != 8 else "sm_90a"
    text = json.dumps(content).encode()
    tensors[PROGRAM] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    metadata["sha256"] = hashlib.sha256(text).hexdigest()
    safetensors.torch.save_file(tensors, tmp_path / "net.inferno", metadata)
    with pytest.raises(PackageError, match=f"it was compiled for {content['target']['name']}, and cuda:0"):
        inferno.load(tmp_path / "net.inferno")


def test_code_that_the_driver_does_not_take_is_an_error(saved, tmp_path):
    _, folder, *_ = saved
    with safetensors.safe_open(folder / "net.inferno", framework="pt") as file:
        tensors, metadata = {n: file.get_tensor(n) for n in file.keys()}, dict(file.metadata())
    content = json.loads(bytes(tensors[PROGRAM].numpy()))
    name = next(n for n in tensors if "/cubin/" in n)
    tensors[name] = torch.cat([tensors[name][:64], torch.zeros(len(tensors[name]) - 64, dtype=torch.uint8)])
    content["tensors"][name] = digest(tensors[name])
    text = json.dumps(content).encode()
    tensors[PROGRAM] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    metadata["sha256"] = hashlib.sha256(text).hexdigest()
    safetensors.torch.save_file(tensors, tmp_path / "net.inferno", metadata)
    with pytest.raises((PackageError, LaunchError), match="loading kernel"):
        inferno.load(tmp_path / "net.inferno")


def test_weights_of_a_model_on_the_cpu_go_to_the_gpu(tmp_path):
    torch.manual_seed(0)
    from inferno.runtime.device import target_of

    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    inferno.compile(model, (torch.randn(16, 64),), target=target_of(torch.device("cuda", 0)).name).save(tmp_path / "net.inferno")
    loaded, x = inferno.load(tmp_path / "net.inferno"), torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        y, reference = loaded(x), model.cuda().double()(x.double())
    assert (y - reference).norm() / reference.norm() < 1e-5


def test_a_model_that_the_library_runs_in_part(tmp_path):
    x = torch.randn(16, 3000, device="cuda")
    compiled = inferno.compile(lambda x: torch.sort(x * 2, stable=True), (x,))
    compiled.save(tmp_path / "net.inferno")
    for ours, theirs in zip(inferno.load(tmp_path / "net.inferno")(x), torch.sort(x * 2, stable=True)):
        assert torch.equal(ours, theirs)


def test_weights_in_channels_last(tmp_path):
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 3)).eval().cuda().bfloat16().to(memory_format=torch.channels_last)
    image = torch.randn(2, 16, 20, 20, device="cuda").bfloat16().to(memory_format=torch.channels_last)
    compiled = inferno.compile(model, (image,))
    assert {a.order for a in compiled.program.signature.arguments if a.name.endswith("weight")} == {(0, 2, 3, 1)}
    compiled.save(tmp_path / "p")
    with torch.no_grad():
        results = [f(image).clone() for f in (compiled, inferno.load(tmp_path / "p"), model)]
    assert torch.equal(results[0], results[1])
    exact = model.double()(image.double())
    assert (results[0].double() - exact).norm() <= 1.5 * (results[2].double() - exact).norm()
