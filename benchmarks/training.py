"""Training under ``torch.compile(backend="inferno")`` beside eager and Inductor: losses, time of a step, peak memory.

    python -m benchmarks.training [--device cuda] [--steps 20] [--out FILE] [MODEL ...]

Every version starts from the same weights and sees the same batches.  The losses' spread is eager's own: its distance from
float64, from the same weights and batches.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inferno.runtime.region.backend import inferno as backend

F = nn.functional


def mlp(small: bool) -> tuple[nn.Module, Callable]:
    size, batch = (32, 16) if small else (1024, 512)
    module = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size), nn.ReLU(), nn.Linear(size, 10))
    return module, lambda g: (torch.randn(batch, size, generator=g), torch.randint(10, (batch,), generator=g))


def cnn(small: bool) -> tuple[nn.Module, Callable]:
    width, image, batch = (8, 12, 4) if small else (64, 32, 64)

    def stage(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]

    module = nn.Sequential(
        *stage(3, width), *stage(width, width), nn.MaxPool2d(2), *stage(width, 2 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10),
    )
    return module, lambda g: (torch.randn(batch, 3, image, image, generator=g), torch.randint(10, (batch,), generator=g))


class _Logits(nn.Module):
    """A transformers model as a function of token ids that returns logits, the last dimension's in front of others flattened."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits.flatten(0, 1) if self.model.config.model_type == "llama" else self.model(ids).logits


def bert(small: bool) -> tuple[nn.Module, Callable]:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 99} if small else {}
    config = BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=4)
    batch, length = (3, 9) if small else (16, 128)
    return _Logits(BertForSequenceClassification(config)), lambda g: (
        torch.randint(config.vocab_size, (batch, length), generator=g), torch.randint(4, (batch,), generator=g),
    )


def llama(small: bool) -> tuple[nn.Module, Callable]:
    from transformers import LlamaConfig, LlamaForCausalLM

    hidden, layers, heads, vocabulary, batch, length = (32, 2, 4, 99, 2, 11) if small else (768, 8, 12, 8192, 4, 256)
    config = LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2, intermediate_size=3 * hidden,
        vocab_size=vocabulary,
    )
    return _Logits(LlamaForCausalLM(config)), lambda g: (
        torch.randint(vocabulary, (batch, length), generator=g), torch.randint(vocabulary, (batch * length,), generator=g),
    )


MODELS = {"mlp": mlp, "cnn": cnn, "bert": bert, "llama": llama}


def run(name: str, device: str, steps: int, versions: list[str]) -> dict[str, Any]:
    """The losses of each version, and on a GPU the seconds of a step and the peak of memory beyond what stood before."""
    torch.manual_seed(0)
    module, batch = MODELS[name](device == "cpu")
    result: dict[str, Any] = {}
    for version in versions:
        torch._dynamo.reset()
        dtype = torch.float64 if version == "float64" else torch.float32
        mine = copy.deepcopy(module).to(device, dtype).train()
        call = {"inferno": lambda m=mine: torch.compile(m, backend=backend), "inductor": lambda m=mine: torch.compile(m)}.get(version, lambda m=mine: m)()
        result[version] = _train(mine, call, batch, device, dtype, steps)
        del mine, call
        if device == "cuda":
            torch._C._cuda_clearCublasWorkspaces()  # 65 MiB that one version's matmuls would leave to the next one's peak
            torch.cuda.empty_cache()
    double, eager = (torch.tensor(result[v]["losses"], dtype=torch.float64) for v in ("float64", "eager"))
    for version in versions:
        result[version]["off"] = (torch.tensor(result[version]["losses"], dtype=torch.float64) - double).abs().max().item()
    result["right"] = result["inferno"]["off"] <= 2 * (eager - double).abs().max().item() + 1e-6
    return result


def _train(module: nn.Module, call: Callable, batch: Callable, device: str, dtype: torch.dtype, steps: int) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    generator, losses, times = torch.Generator().manual_seed(1), [], []
    peak = 0
    for step in range(steps):
        x, y = (t.to(device) for t in batch(generator))
        x = x.to(dtype) if x.is_floating_point() else x
        if device == "cuda":
            torch.cuda.synchronize()
            if step == 3:
                torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        loss = F.cross_entropy(call(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    return {"losses": losses, "first": times[0], "step": sorted(times[3:])[len(times[3:]) // 2], "peak": peak}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    versions = ["float64", "eager", "inferno"] + (["inductor"] if arguments.device == "cuda" else [])
    found: dict[str, Any] = {}
    for name in arguments.models:
        found[name] = result = run(name, arguments.device, arguments.steps, versions)
        parts = [
            f"{v}: off {result[v]['off']:.1e}, {1e3 * result[v]['step']:.2f} ms, first {result[v]['first']:.1f} s, peak {result[v]['peak'] / 2**20:.0f} MiB"
            for v in versions
        ]
        print(f"{name}: {'right' if result['right'] else 'WRONG'}; " + "; ".join(parts), flush=True)
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(found, indent=1))
    return int(not all(r["right"] for r in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
