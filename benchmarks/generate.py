"""Greedy generation with a static key-value cache, compiled and in eager: the same tokens, and how many a second.

    python -m benchmarks.generate                    # a small Llama, 64 tokens, float32
    python -m benchmarks.generate --size base        # TinyLlama-1.1B's sizes

The prompt and the single token are two programs; both write to the one cache, which the caller holds.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch

import inferno
from benchmarks.models import tinyllama


def new_cache(model: torch.nn.Module, length: int, batch: int = 1):
    """A static cache of the model's sizes for ``length`` tokens."""
    from transformers import StaticCache

    config, weight = model.config, next(model.parameters())
    cache = StaticCache(config=config, max_cache_len=length)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache.early_initialization(batch, config.num_key_value_heads, head, weight.dtype, weight.device)
    return cache


def generate(prefill: Callable, decode: Callable, cache: object, prompt: torch.Tensor, count: int) -> list[int]:
    """``count`` tokens that follow ``prompt``, the likeliest each time."""
    tokens = []
    with torch.no_grad():
        logits = prefill(input_ids=prompt, past_key_values=cache).logits
        for i in range(count):
            token = logits[:, -1:].argmax(-1)
            tokens.append(token)
            if i + 1 < count:
                logits = decode(input_ids=token, past_key_values=cache).logits
    return torch.cat(tokens, 1)[0].tolist()


def compile_steps(model: torch.nn.Module, prompt: torch.Tensor, length: int, **options: object) -> tuple[Callable, Callable]:
    """The model compiled for the prompt and for one token after it."""
    def step(ids: torch.Tensor) -> Callable:
        return inferno.compile(model, (), kwargs={"input_ids": ids, "past_key_values": new_cache(model, length)}, fallback=False, **options)

    return step(prompt), step(prompt[:, :1])


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns 1 if a token differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", choices=("small", "base"), default="small")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=8, help="tokens of the prompt")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    model = tinyllama(options.size, getattr(torch, options.dtype), torch.device("cpu"))[0].to(options.device)
    model.config.max_position_embeddings = max(model.config.max_position_embeddings, options.prompt + options.tokens)
    prompt = torch.randint(3, model.config.vocab_size, (1, options.prompt), device=options.device)
    length = options.prompt + options.tokens
    begin = time.perf_counter()
    prefill, decode = compile_steps(model, prompt, length)
    result = {"model": options.size, "dtype": options.dtype, "device": options.device, "compile_s": round(time.perf_counter() - begin, 2)}
    result["kernels"] = {"prompt": len(prefill.program.kernels), "token": len(decode.program.kernels)}
    texts = {}
    for name, steps in (("eager", (model, model)), ("inferno", (prefill, decode)), ("eager again", (model, model)), ("inferno again", (prefill, decode))):
        cache = new_cache(model, length)
        begin = time.perf_counter()
        texts[name] = generate(*steps, cache, prompt, options.tokens)
        result[f"tokens/s {name}"] = round(options.tokens / (time.perf_counter() - begin), 1)
    same = [i for i, pair in enumerate(zip(texts["eager"], texts["inferno"])) if pair[0] != pair[1]]
    result["first difference"] = same[0] if same else None
    result["again the same"] = texts["inferno"] == texts["inferno again"]
    print(json.dumps(result))
    return int(bool(same) or not result["again the same"])


if __name__ == "__main__":
    sys.exit(main())
