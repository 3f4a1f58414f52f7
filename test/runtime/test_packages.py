"""Packages: what is written comes back, and what is damaged is refused.  Compiled for a GPU, which need not be there."""

import collections
import copy
import dataclasses
import hashlib
import json
import os
import pickle
import random
from pathlib import Path

import pytest
import safetensors.torch
import torch
from processes import without_a_compiler
from torch import nn

import inferno
from inferno.errors import InputError, LaunchError, OptionError, PackageError
from inferno.runtime.module import CompiledModule
from inferno.runtime.package.save import PROGRAM, digest
from inferno.runtime.plan.plan import Buffer
from inferno.runtime.package.tree_data import Record

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Answer:
    value: torch.Tensor
    extra: torch.Tensor | None = None


torch.export.register_dataclass(Answer, serialized_type_name="test_packages.Answer")


class Net(nn.Module):
    """Tied weights, a buffer that is written, a constant, inputs and outputs that are nested."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Embedding(50, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids, *, pair, scale=0.5):
        self.calls.add_(1)
        h = torch.nn.functional.gelu(self.mix(self.embed(ids))) * scale
        h = h + torch.tensor([1.0, 2.0] * 16) + pair[0]
        return {"logits": self.head(h), "rest": [Pair(h, 3), Answer(h * pair[1])], 7: None}


@pytest.fixture(scope="module")
def compiled():
    torch.manual_seed(0)
    return inferno.compile(Net().eval(), (torch.arange(6),), kwargs={"pair": (torch.randn(6, 32), torch.randn(32))}, target="sm_90a")


@pytest.fixture(scope="module")
def package(compiled, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "net.inferno"
    compiled.save(path)
    return path


def test_what_runs_comes_back(compiled, package):
    loaded = inferno.load(package, device="cpu")
    ours, theirs = loaded.program, compiled.program
    assert ours.launch_plan() == theirs.launch_plan() and ours.target == theirs.target and ours.constants == theirs.constants
    for name, kernel in theirs.kernels.items():
        assert (ours.kernels[name].cubin, ours.kernels[name].ptx, ours.kernels[name].code) == (kernel.cubin, kernel.ptx, kernel.code)
    assert str(loaded.explain()) == str(compiled.explain())
    for stage in ("torch", "linalg", "fused", "scheduled", "gpu", "llvm", "ptx"):
        assert loaded.ir(stage) == compiled.ir(stage)
    pair = torch.randn(6, 32), torch.randn(32)
    arguments = ours.signature.arguments_of((torch.arange(6),), {"pair": pair})
    for given, tensor in zip(theirs.signature.arguments_of((torch.arange(6),), {"pair": pair}), arguments):
        assert torch.equal(given, tensor)


def test_outputs_are_built_in_their_nest(compiled, package):
    results = [torch.randn(r.shape) for r in compiled.program.signature.results if r.kind == "output"]
    out = inferno.load(package, device="cpu").program.signature.build_output(results)
    expected = compiled.program.signature.build_output(results)
    assert list(out) == ["logits", "rest", 7] and out["logits"] is expected["logits"] and out[7] is None
    pair, answer = out["rest"]
    assert pair.first is expected["rest"][0].first and pair.second == 3 and pair._fields == ("first", "second") and type(pair).__name__ == "Pair"
    assert isinstance(answer, Record) and answer.value is answer["value"] is answer[0] is expected["rest"][1].value
    assert answer.extra is None and answer.to_tuple() == (answer.value,)
    with pytest.raises(AttributeError, match="no field 'other'"):
        answer.other  # noqa: B018


def test_calls_are_checked_as_before(package):
    loaded = inferno.load(package, device="cpu")
    signature = loaded.program.signature
    for args, kwargs, says in (
        ((torch.arange(6),), {"pair": torch.zeros(3)}, "nested differently"),
        ((torch.arange(6),), {"pair": (torch.zeros(6, 32),) * 2, "scale": 0.25}, "nested differently|expected 0.5"),
        ((torch.arange(6),), {"wrong": 1}, "does not fit the model's signature"),
    ):
        with pytest.raises(InputError, match=says):
            signature.arguments_of(args, kwargs)
    with pytest.raises(LaunchError, match="compiled for sm_90a, which is not what cpu is"):
        loaded(torch.arange(6), pair=(torch.zeros(6, 32), torch.zeros(32)))


def test_weights_are_those_of_now_and_tied_ones_are_stored_once(compiled, tmp_path):
    net = Net().eval()
    changed = inferno.compile(net, (torch.arange(6),), kwargs={"pair": (torch.randn(6, 32), torch.randn(32))}, target="sm_90a")
    with torch.no_grad():
        net.mix.weight.fill_(7)
    changed.save(tmp_path / "net.inferno")
    stored = safetensors.torch.load_file(tmp_path / "net.inferno")
    assert torch.equal(stored["mix.weight"], torch.full((32, 32), 7.0))
    shapes = [tuple(t.shape) for n, t in stored.items() if not n.startswith("__inferno__/")]
    assert shapes.count((50, 32)) == 1
    arguments = inferno.load(tmp_path / "net.inferno", device="cpu").program.signature.arguments
    assert len({id(a.table[a.key]) for a in arguments if a.shape == (50, 32)}) == 1
    net.mix.weight = nn.Parameter(torch.zeros(32, 31))
    with pytest.raises(PackageError, match="parameter mix.weight: compiled for"):
        changed.save(tmp_path / "other.inferno")


def test_a_loaded_model_has_the_model_s_state(package, tmp_path):
    loaded = inferno.load(package, device="cpu")
    assert list(loaded.state_dict()) == list(Net().state_dict())
    assert loaded.head.weight is loaded.embed.weight and len(list(loaded.parameters())) == 3
    held = lambda m: [a.table[a.key] for a in m.program.signature.arguments if a.kind in ("parameter", "buffer")]  # noqa: E731
    assert {id(t) for t in held(loaded)} == {id(t) for t in [*loaded.parameters(), loaded.calls]}
    other = Net()
    loaded.load_state_dict(other.state_dict())
    assert torch.equal(held(loaded)[0], other.embed.weight)
    loaded.save(tmp_path / "again.inferno")
    again, copied = inferno.load(tmp_path / "again.inferno", device="cpu"), copy.deepcopy(loaded)
    assert again.program.launch_plan() == loaded.program.launch_plan()
    loaded.embed.weight.fill_(1)
    for same in (again, copied):
        assert list(same.state_dict()) == list(other.state_dict()) and same.head.weight is same.embed.weight
        for name, tensor in same.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name])
    with pytest.raises(TypeError, match="it was read from a package"):
        pickle.dumps(loaded)


def test_buffers_that_are_no_state_stay_none(tmp_path):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("angles", torch.arange(4.0), persistent=False)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x):
            return x * self.angles.cos() * self.scale

    model = Table()
    inferno.compile(model, (torch.ones(4),), target="sm_90a").save(tmp_path / "net.inferno")
    loaded = inferno.load(tmp_path / "net.inferno", device="cpu")
    assert list(loaded.state_dict()) == ["scale"] and torch.equal(dict(loaded.named_buffers())["angles"], model.angles)
    loaded.load_state_dict(model.state_dict())
    loaded.save(tmp_path / "again.inferno")
    assert list(inferno.load(tmp_path / "again.inferno", device="cpu").state_dict()) == ["scale"]


@pytest.mark.parametrize(("state", "says"), [
    ([["calls", "hook", "calls"]], "its state has a 'hook' called 'calls'"),
    ([["a..b", "buffer", "calls"]], "called 'a..b'"),
    ([["a", "buffer", "calls"], ["a", "parameter", "calls"]], "its state has two of 'a'"),
    ([["a", "buffer", "nothing"]], "KeyError: 'nothing'"),
    ([["a", "buffer"]], "not enough values"),
])
def test_a_state_that_is_none_is_refused(package, tmp_path, state, says):
    refused(rewrite(package, tmp_path / "net", lambda content, *_: content.update(state=state)), says)


def test_ir_can_stay_at_home(compiled, tmp_path):
    compiled.save(tmp_path / "net.inferno", ir=False)
    loaded = inferno.load(tmp_path / "net.inferno", device="cpu")
    with pytest.raises(OptionError, match="the text of stage 'fused' is not held; held are none"):
        loaded.ir("fused")
    assert "addf" in str(loaded.explain()) and ".visible .entry" in loaded.ir("ptx")
    assert b"linalg.generic" not in (tmp_path / "net.inferno").read_bytes()


_ALONE = """
import torch
import inferno

def hook(event, arguments):
    assert event != "pickle.find_class", arguments

sys.addaudithook(hook)
loaded = inferno.load(sys.argv[1], device="cpu")
assert "inferno.launch" in loaded.ir("gpu") and "sm_90a" in str(loaded.explain())
import inferno.runtime.launch.executable, inferno.runtime.call.gpu, inferno.runtime.launch.interpreter
try:
    loaded(torch.zeros(3))
except inferno.LaunchError:
    print("fine")
assert not any(name.startswith(("torch_mlir", "llvmlite", "inferno.mlir")) for name in sys.modules)
"""


@pytest.mark.thorough
def test_it_loads_where_there_is_no_compiler(package):
    assert without_a_compiler(_ALONE, str(package)) == "fine"


def test_the_cpu_target_has_no_package(tmp_path):
    compiled = inferno.compile(nn.Linear(4, 4), (torch.randn(2, 4),), target="cpu")
    with pytest.raises(PackageError, match="cpu target has no package: loading one would run the file's native code"):
        compiled.save(tmp_path / "net.inferno")
    assert not list(tmp_path.iterdir())


def test_models_of_several_graphs_or_with_eager_parts_have_no_package(tmp_path):
    def branches(x):
        return x + 1 if x.sum() > 0 else x - 1

    for function, says in ((branches, "a package holds one graph"), (lambda x: torch.linalg.svdvals(x @ x) + 1, "needs them: aten.*svd")):
        with pytest.raises(PackageError, match=says):
            inferno.compile(function, (torch.randn(4, 4),), target="sm_90a").save(tmp_path / "net.inferno")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_what_the_library_runs_faster_is_compiled_for_a_package(tmp_path):
    compiled = inferno.compile(lambda x: torch.sort(x * 2, stable=True), (torch.randn(16, 3000),), target="sm_90a")
    assert [f.operation for f in compiled.fallbacks] == ["sort"]
    compiled.save(tmp_path / "net.inferno")
    loaded = inferno.load(tmp_path / "net.inferno", device="cpu")
    assert loaded.fallbacks == () and any("sort" in name for name in loaded.program.kernels)


def test_a_file_is_written_whole_or_not_at_all(compiled, package, tmp_path, monkeypatch):
    path = tmp_path / "net.inferno"
    path.write_bytes(package.read_bytes())
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(PackageError, match="it could not be written: no space left"):
        compiled.save(path)
    assert path.read_bytes() == package.read_bytes() and list(tmp_path.iterdir()) == [path]
    with pytest.raises(PackageError, match="nowhere"):
        compiled.save(tmp_path / "nowhere" / "net.inferno")


def test_who_may_read_it_is_as_for_other_files(package, tmp_path):
    (tmp_path / "other").write_bytes(b"")
    assert package.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("device", [None, "cpu"])
def test_what_is_no_file_is_said_first(tmp_path, device):
    with pytest.raises(PackageError, match="missing.inferno: No such file"):
        inferno.load(tmp_path / "missing.inferno", device=device)
    with pytest.raises(PackageError, match="it is a folder, and a package is a file"):
        inferno.load(tmp_path, device=device)
    (tmp_path / "text").write_text("no package")
    with pytest.raises(PackageError, match="it is no package, or is damaged"):
        inferno.load(tmp_path / "text", device=device)


def test_without_a_gpu_a_device_must_be_named(package):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(PackageError, match="there is no GPU here; with device='cpu'"):
        inferno.load(package)
    with pytest.raises(OptionError, match="device"):
        inferno.load(package, device="toaster")


# What follows changes a package, and makes its checksums right again where the change is to get past them.


def rewrite(package: Path, path: Path, change) -> Path:
    """The package with ``change(content, tensors, metadata)`` done to it."""
    with safetensors.safe_open(package, framework="pt") as file:
        tensors, metadata = {n: file.get_tensor(n).clone() for n in file.keys()}, dict(file.metadata())
    content = json.loads(bytes(tensors[PROGRAM].numpy()))
    done = change(content, tensors, metadata)
    if done != "checksums":
        for name in content["tensors"]:
            if name in tensors:
                content["tensors"][name] = digest(tensors[name])
        text = json.dumps(content).encode()
        tensors[PROGRAM] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        metadata["sha256"] = hashlib.sha256(text).hexdigest()
    safetensors.torch.save_file(tensors, path, metadata)
    return path


def refused(path: Path, says: str) -> None:
    with pytest.raises(PackageError) as error:
        inferno.load(path, device="cpu")
    assert says in str(error.value) and str(path) in str(error.value), error.value


def test_rewriting_alone_changes_nothing(package, tmp_path):
    inferno.load(rewrite(package, tmp_path / "same", lambda *_: None), device="cpu")


def test_other_files_are_refused(tmp_path):
    refused(tmp_path / "missing", "No such file")
    for data in (b"", b"x", b"PK\x03\x04" + bytes(100), b"\xff" * 64, b"\x10" + bytes(7) + b"{" * 16):
        (tmp_path / "file").write_bytes(data)
        refused(tmp_path / "file", "it is no package, or is damaged")
    safetensors.torch.save_file({"a": torch.zeros(3)}, tmp_path / "weights")
    refused(tmp_path / "weights", "it is no Inferno package")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "")


def test_truncated_files_are_refused(package, tmp_path):
    whole, path = package.read_bytes(), tmp_path / "net.inferno"
    for length in [0, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path, "it is no package, or is damaged")
    path.write_bytes(whole + b"x")
    refused(path, "it is no package, or is damaged")


def test_every_flipped_bit_is_noticed(package, tmp_path):
    whole, path = package.read_bytes(), tmp_path / "net.inferno"
    torch.manual_seed(0)
    places = [*torch.randint(len(whole), (60,)).tolist(), 0, 3, 9, 40, len(whole) - 1]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        with pytest.raises(PackageError):
            inferno.load(path, device="cpu")


def test_a_newer_version_is_refused(package, tmp_path):
    def newer(content, tensors, metadata):
        metadata["version"] = "9"

    refused(rewrite(package, tmp_path / "net", newer), "it has version 9 of the format, and this Inferno reads up to 8; update Inferno")


@pytest.mark.parametrize(("name", "says"), [("sm_200", "which this Inferno does not know"), ("cpu", "which this Inferno does not know"), (3, "does not know")])
def test_an_unknown_target_is_refused(package, tmp_path, name, says):
    refused(rewrite(package, tmp_path / "net", lambda content, *_: content["target"].update(name=name)), says)


def test_another_gpu_is_refused(package, monkeypatch):
    from inferno.target import TARGETS

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA A100")
    monkeypatch.setattr("inferno.runtime.package.load.target_of", lambda device: TARGETS["sm_80"])
    with pytest.raises(PackageError, match=r"it was compiled for sm_90a, and cuda:0 \(NVIDIA A100\) is sm_80; compile the model for this one"):
        inferno.load(package)


def test_tensors_that_do_not_fit_their_list_are_refused(package, tmp_path):
    def less(content, tensors, metadata):
        del tensors["mix.bias"]

    def more(content, tensors, metadata):
        tensors["surprise"] = torch.zeros(3)

    def none(content, tensors, metadata):
        del tensors[PROGRAM]
        return "checksums"

    def other(content, tensors, metadata):
        tensors["mix.bias"] += 1
        return "checksums"

    refused(rewrite(package, tmp_path / "a", less), "its tensors are not those that it lists")
    refused(rewrite(package, tmp_path / "b", more), "its tensors are not those that it lists")
    refused(rewrite(package, tmp_path / "c", none), "there is no program in it")
    refused(rewrite(package, tmp_path / "d", other), "mix.bias has another checksum")


@pytest.mark.parametrize(("path", "value", "says"), [
    ("plan", ..., "its program is not whole"),
    ("plan.workspace_bytes", 16, "are not in a workspace of 16"),
    ("plan.workspace_bytes", "many", "got 'many'"),
    ("plan.arguments", [], "it refers to argument"),
    ("plan.steps.0.kernel", "../../etc::passwd", "its plan launches ../../etc::passwd, which it does not hold"),
    ("plan.steps.0.grid", [-1, 1, 1], "grid"),
    ("plan.steps.0", {"is": "LibraryCall", "function": "os.system", "options": {}, "parameters": []}, "library function 'os.system'"),
    ("plan.outputs.1.shape", [10**9, 10**9, 10**9], "more bytes than there are"),
    ("signature.arguments.1.shape", [1], "expected (1,)"),
    ("signature.arguments.1.weight", "calls", "tensor 'calls' is () torch.float32, expected (32, 32)"),
    ("signature.arguments.1.weight", "__inferno__/program", "which is not there"),
    ("signature.arguments.1.kind", "code", "kind 'code'"),
    ("signature.arguments.1.dtype", "load", "a constant is {'dtype': 'load'}"),
    ("signature.results.0.target", 99, "for argument 99"),
    ("signature.results.0.shape", [3], "its plan has result 0"),
    ("signature.leaves.0", {"argument": 77}, "number 77 of"),
    ("signature.leaves", [], "its leaves are not its inputs"),
    ("signature.inputs", {"kind": "pickle", "parts": []}, "container of kind 'pickle'"),
    ("signature.outputs.kind", "os.system", "container of kind 'os.system'"),
    ("signature.outputs.parts.1.parts.0.name", "__class__", "which are no names"),
    ("signature.outputs.parts.1.parts.0.names", ["first", "class"], "cannot be a keyword"),
    ("signature.parameters.0.name", "x; import os", "is not a valid parameter name"),
    ("signature.guards", ["__import__('os').system('true')"], "which is no arithmetic of sizes"),
    ("signature.guards", ["s0.real == 1"], "a guard holds Attribute"),
    ("constants", [{"element": "f32", "shape": [3]}], "KeyError: 'constants/0'"),
    ("kernels.0.code", 3, "described by other things"),
    ("kernels", [], "which it does not hold"),
    ("stages", ["../../secrets"], "stage '../../secrets'"),
])
def test_numbers_and_names_that_do_not_fit_are_refused(package, tmp_path, path, value, says):
    def change(content, *_):
        *way, last = path.split(".")
        place = content
        for part in way:
            place = place[int(part) if isinstance(place, list) else part]
        if value is ...:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = copy.deepcopy(value)

    refused(rewrite(package, tmp_path / "net", change), says)


def test_arithmetic_is_a_guard():
    from inferno.runtime.package.signature_data import check_guard

    for text in ("s0 == s1", "s0 % 8 == 0 and not s1 > 2 * s0 - 3", "max(s0, 4) // 2 != -1"):
        assert check_guard(text) == text


def test_what_has_no_form_is_refused_when_saving(tmp_path):
    class Box(dict):
        pass

    torch.utils._pytree.register_pytree_node(Box, lambda b: (list(b.values()), list(b)), lambda v, k: Box(zip(k, v)), serialized_type_name="test.Box")
    compiled = inferno.compile(lambda x: Box(y=x + 1), (torch.randn(3),), target="sm_90a")
    with pytest.raises(PackageError, match="the outputs: a .*Box has no form in a package"):
        compiled.save(tmp_path / "net.inferno")


def test_overlapping_weights_that_are_written_are_refused(tmp_path):
    class Overlap(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(4))
            self.register_buffer("b", torch.zeros(4))

        def forward(self, x):
            self.a.add_(x)
            return self.b + 1

    model = Overlap()
    compiled = inferno.compile(model, (torch.randn(4),), target="sm_90a")
    memory = torch.zeros(6)
    model.a, model.b = memory[:4], memory[2:]
    with pytest.raises(PackageError, match="a is written by the model and shares memory with b"):
        compiled.save(tmp_path / "net.inferno")


def test_constants_of_the_compiler_come_along(tmp_path):
    compiled = inferno.compile(lambda x: x + 1, (torch.randn(3),), target="sm_90a")
    plan = compiled.program.launch_plan()
    more = dataclasses.replace(plan, arguments=(*plan.arguments, Buffer("argument", 1, (2, 3), "i32")))
    constants = [("i32", (2, 3), bytes(range(24)))]
    path = tmp_path / "net.inferno"
    CompiledModule(dataclasses.replace(compiled.program, plan=more, constants=constants), torch.device("cpu"), 0.0).save(path)
    assert inferno.load(path, device="cpu").program.constants == constants
    refused(rewrite(path, tmp_path / "a", lambda content, *_: content["constants"][0].update(shape=[5])), "a constant of (5,) i32 has 24 bytes")
    refused(rewrite(path, tmp_path / "b", lambda content, *_: content["constants"][0].update(element="object")), "KeyError")
    refused(rewrite(path, tmp_path / "c", lambda content, *_: content.update(constants=[])), "its plan has 2 arguments, and its signature 1")


def test_outputs_that_are_views_come_back(tmp_path):
    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(6, 4).t())

        def forward(self, x):
            y = (x @ self.table).t()
            return y, y[1:], x[:, 1], self.table[2:], x

    model, x = Views(), torch.randn(5, 4)
    compiled = inferno.compile(model, (x,), target="sm_90a")
    path = tmp_path / "net.inferno"
    compiled.save(path)
    ours, theirs = inferno.load(path, device="cpu").program.signature, compiled.program.signature
    assert ours.results == theirs.results and ours.views == theirs.views and len(ours.views) >= 3
    y = torch.randn(theirs.results[0].shape)
    built = [s.build_output(s.add_views([r.as_eager(y) for r in s.results], s.arguments_of((x,), {}))) for s in (ours, theirs)]
    for a, b in zip(*built):
        assert torch.equal(a, b) and a.stride() == b.stride()
    assert built[0][4] is x
    for change, says in (
        (lambda c: c["signature"]["views"][0].update(argument=9, result=-1), "number 9 of"),
        (lambda c: c["signature"]["views"][0].update(argument=0, result=0), "of an argument and of a result, or of neither"),
        (lambda c: c["signature"]["views"][2].update(strides=[-1] * len(c["signature"]["views"][2]["shape"])), "strides (-1"),
        (lambda c: c["signature"]["views"][0].update(whole=1), "expected bool"),
        (lambda c: c["signature"]["output_leaves"][-1].update(result=55), "number 55 of"),
        (lambda c: c["strides"].update(table=[1, 1]), "has strides"),
    ):
        refused(rewrite(path, tmp_path / "changed", lambda content, *_, change=change: change(content)), says)


def test_sizes_that_vary_come_back(tmp_path):
    net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).eval()
    shapes = ({0: torch.export.Dim("rows", min=1, max=512)},)
    compiled = inferno.compile(net, (torch.randn(8, 64),), target="sm_90a", dynamic_shapes=shapes)
    path = tmp_path / "net.inferno"
    compiled.save(path)
    ours, theirs = inferno.load(path, device="cpu").program, compiled.program
    assert ours.launch_plan() == theirs.launch_plan() and len(ours.launch_plan().symbols) == 1
    assert [a.shape for a in ours.signature.arguments] == [a.shape for a in theirs.signature.arguments]
    assert [r.shape for r in ours.signature.results] == [r.shape for r in theirs.signature.results]
    text = json.dumps(ours.launch_plan().as_dict())
    for before, after, says in (
        ('"s0"', '"print()"', "a symbol is called 'print()'"),
        ('"symbols": [', '"symbols": [], "source": [', "unknown field 'source'"),
        ('"floordiv"', '"eval"', "a size is made by 'eval'"),
    ):
        assert before in text
        change = lambda content, *_, a=before, b=after: content.update(plan=json.loads(text.replace(a, b)))  # noqa: E731
        refused(rewrite(path, tmp_path / "changed", change), says)
    refused(rewrite(path, tmp_path / "changed", lambda content, *_: content["plan"].pop("symbols") and None), "a size is of")


_VALUES = (None, 0, -1, 2**31, 2**70, 1.5, True, "", "../..", "__class__", "s0", [], [[[]]], {}, {"is": "Buffer"}, {"kind": "leaf"}, {"float": "nan"})


def _paths(node, path=()):
    yield path
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _paths(value, (*path, key))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("seed", range(3))
def test_random_changes_are_refused_or_do_no_harm(compiled, tmp_path, seed):
    """Whatever is changed, with the checksums made right: PackageError, or a module that can be looked at."""
    compiled.save(tmp_path / "small.inferno", ir=False)
    generator = random.Random(seed)

    def change(content, *_):
        *way, last = generator.choice([p for p in _paths(content) if p and p[0] != "tensors"])
        place = content
        for part in way:
            place = place[part]
        if generator.random() < 0.2:
            del place[last]
        elif generator.random() < 0.3 and type(place[last]) is int:
            place[last] += generator.choice((-1, 1, 16, 1000))
        else:
            place[last] = copy.deepcopy(generator.choice(_VALUES))

    for _ in range(40):
        try:
            loaded = inferno.load(rewrite(tmp_path / "small.inferno", tmp_path / "changed.inferno", change), device="cpu")
        except PackageError:
            continue
        str(loaded.explain())
