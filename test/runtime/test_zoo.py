"""A slice of the zoo on the cpu target, and the runner of the whole."""

import json

import pytest
import torch

from benchmarks import zoo_run
from benchmarks.zoo import ZOO, library_of, shard

# One of each kind that test_models.py has none of: relative attention, experts, a state-space model, skip connections, recurrence.
SLICE = ("deberta-v2", "mixtral", "mamba", "unet", "lstm")


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", SLICE)
def test_models_are_right_and_whole(name):
    if library_of(name) != "torch":
        pytest.importorskip(library_of(name))
    result = zoo_run.run_model(name, "inferno.compile", "cpu")
    assert result["status"] == "right", result
    assert (result["graphs"], result["segments"], result["fallbacks"]) == (1, 1, [])


def test_the_zoo_has_the_architectures_that_it_should():
    assert len(ZOO) >= 60
    wanted = (
        "bert roberta deberta gpt2 gpt-neox llama qwen2 qwen3 mistral mixtral gemma2 gemma3 phi falcon t5 bart whisper wav2vec2 clip sam vit swin "
        "convnext resnet torchvision:densenet efficientnet mobilenet-v2 regnet segformer unet mamba lstm"
    )
    assert set(wanted.split()) <= set(ZOO)
    names = [n for i in range(3) for n in shard(i, 3)]
    assert sorted(names) == sorted(ZOO) and list(shard(0, 1, "mobilenet-v")) == ["mobilenet-v1", "mobilenet-v2"]


def test_the_runner(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ZOO, "broken", lambda: (torch.nn.Linear(2, 3), (torch.randn(3),), {}))
    monkeypatch.setitem(ZOO, "absent", lambda: __import__("no_such_library"))
    path = tmp_path / "zoo.jsonl"
    ran = []

    def run(name, way, device, seconds):
        ran.append(name)
        return {"name": name, "way": way, "device": device, **zoo_run.run_model(name, way, device)}

    arguments = ["--out", str(path), "--device", "cpu"]
    monkeypatch.setattr(zoo_run, "run_child", run)
    assert zoo_run.main([*arguments, "--only", "broken"]) == 1
    assert zoo_run.main([*arguments, "--only", "absent"]) == 1
    assert zoo_run.main([*arguments, "--only", "broken"]) == 1 and ran == ["broken", "absent"]  # each has its line
    assert zoo_run.main([*arguments, "--only", "broken", "--again"]) == 1 and ran[2:] == ["broken"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["status"] for r in lines] == ["failed", "missing", "failed"] and "mat1 and mat2" in lines[0]["error"]
    assert "0 of 1 right" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_model_in_a_process_of_its_own():
    result = zoo_run.run_child("no such model", "inferno.compile", "cpu", 60)
    assert result["status"] == "crashed" and "no such model" in result["error"]
    slow = zoo_run.run_child("unet", "inferno.compile", "cpu", 0.05)
    assert slow["status"] == "crashed" and "took longer" in slow["error"]
