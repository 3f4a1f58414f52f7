"""The suites of whole models: their libraries' own classes at their published sizes, random weights, nothing downloaded.

Each of ``models`` and ``models-more`` is compiled as one would serve it, with ``freeze`` and ``cuda_graphs``, and by the defaults, beside torch.compile
with and without CUDA graphs; ``models-small`` are small ones of their kinds.  ``MODELS[name](size, dtype, device)`` gives (model, args, kwargs), for a ``size``
of "base" or "small".
"""

from collections.abc import Callable

import torch

from benchmarks.case import Case
from benchmarks.qwen import smaller
from benchmarks.vision_transformer import VisionTransformer

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def bert(size: str, dtype: torch.dtype, device: torch.device, batch: int = 1) -> tuple:
    """BERT-base, or a small one of its kind."""
    import transformers

    kwargs = {} if size == "base" else {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}
    model = _made(lambda: transformers.BertModel(transformers.BertConfig(**kwargs)), dtype, device)
    return model, (), tokens(model, 128 if size == "base" else 16, device, batch)


def gpt2(size: str, dtype: torch.dtype, device: torch.device) -> tuple:
    import transformers

    kwargs = {} if size == "base" else {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 64}
    model = _made(lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **kwargs)), dtype, device)
    return model, (), tokens(model, 512 if size == "base" else 16, device)


def tinyllama(size: str, dtype: torch.dtype, device: torch.device) -> tuple:
    import transformers

    kwargs = {
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
        "vocab_size": 32000, "max_position_embeddings": 2048,
    } if size == "base" else {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 256, "max_position_embeddings": 64,
    }
    model = _made(lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, pad_token_id=0, **kwargs)), dtype, device)
    return model, (), tokens(model, 512 if size == "base" else 16, device)


def resnet50(size: str, dtype: torch.dtype, device: torch.device, batch: int = 1) -> tuple:
    import transformers

    kwargs = {} if size == "base" else {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = transformers.ResNetConfig(num_labels=1000 if size == "base" else 10, **kwargs)
    return _made(lambda: transformers.ResNetForImageClassification(config), dtype, device), (), _image(224 if size == "base" else 32, dtype, device, batch)


def vit(size: str, dtype: torch.dtype, device: torch.device, batch: int = 1) -> tuple:
    import transformers

    kwargs = {} if size == "base" else {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
    }
    model = _made(lambda: transformers.ViTModel(transformers.ViTConfig(**kwargs)), dtype, device)
    return model, (), _image(224 if size == "base" else 32, dtype, device, batch)


def vision_transformer(size: str, dtype: torch.dtype, device: torch.device, batch: int = 1) -> tuple:
    """ViT-B/16 as torchvision has it."""
    kwargs = {} if size == "base" else {"size": 32, "patch": 8, "layers": 2, "heads": 4, "width": 64, "inner": 128, "classes": 10}
    model = _made(lambda: VisionTransformer(**kwargs), dtype, device)
    return model, (_image(224 if size == "base" else 32, dtype, device, batch)["pixel_values"],), {}


def qwen(size: str, dtype: torch.dtype, device: torch.device) -> tuple:
    """The first four layers of Qwen2.5-7B, between its embedding and its last norm; or two layers of a small one of its kind."""
    import transformers

    layers = 4 if size == "base" else 2
    config = smaller(layers, None if size == "base" else 128) | {"use_cache": False}
    unknown = ("architectures", "model_type", "dtype")
    model = _made(lambda: transformers.Qwen2Model(transformers.Qwen2Config(**{k: v for k, v in config.items() if k not in unknown})), dtype, device)
    return model, (), tokens(model, 512 if size == "base" else 16, device)


def _made(make: Callable[[], torch.nn.Module], dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    """The model, made where it will be: filling weights takes longest."""
    with torch.device(device):
        return make().eval().to(dtype)


def tokens(model: torch.nn.Module, length: int, device: torch.device, batch: int = 1) -> dict:
    return {"input_ids": torch.randint(0, model.config.vocab_size, (batch, length), device=device)}


def _image(size: int, dtype: torch.dtype, device: torch.device, batch: int) -> dict:
    return {"pixel_values": torch.randn(batch, 3, size, size, dtype=dtype, device=device)}


MODELS = {
    "bert": bert, "gpt2": gpt2, "resnet50": resnet50, "vit": vit, "vision_transformer": vision_transformer, "tinyllama": tinyllama, "qwen": qwen,
}


def _model(function: Callable, size: str, type_: str, **more: int) -> Callable:
    return lambda device: function(size, DTYPES[type_], device, **more)


_MODES = ("torch.compile", "reduce-overhead")
_SERVED = {"freeze": True, "cuda_graphs": True}


def _case(name: str, function: Callable, type_: str, group: str = "models", rate: str | None = None, **more: int) -> Case:
    """A model as it is served, and beside it with the defaults."""
    make = _model(function, "base", type_, **more)
    return Case(f"{name} {type_}", make, _MODES, rate=rate or type_, options=_SERVED, variants={"defaults": {}}, group=group)


SUITES: dict[str, list[Case]] = {
    "models": [
        _case("resnet50 32x224x224", resnet50, "bf16", batch=32), _case("resnet50 1x224x224", resnet50, "f32", rate="tf32"),
        _case("vit-b/16 32x224x224", vision_transformer, "bf16", batch=32), _case("bert-base 1x128", bert, "bf16"),
        _case("bert-base 32x128", bert, "bf16", batch=32),
        _case("gpt2 1x512", gpt2, "bf16"), _case("tinyllama 1x512", tinyllama, "bf16"), _case("qwen2.5-7b, 4 layers, 1x512", qwen, "bf16"),
    ],
    "models-more": [
        _case("resnet50 1x224x224", resnet50, "bf16", "more models"), _case("vit-b/16 1x224x224", vit, "bf16", "more models"),
        _case("transformers' vit-b/16 32x224x224", vit, "bf16", "more models", batch=32),
        *(_case(name, function, "f32", "more models") for name, function in (
            ("vit-b/16 1x224x224", vit), ("bert-base 1x128", bert), ("gpt2 1x512", gpt2), ("tinyllama 1x512", tinyllama),
        )),
    ],
    "models-small": [Case(f"small {name} f32", _model(function, "small", "f32")) for name, function in MODELS.items()],
}
