"""The suite ``networks``: well-known networks at their published sizes, from their libraries' own classes, with random weights.

Those of torchvision and timm need these libraries.  Each is compiled as one would serve it, and beside it by the defaults.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.case import Case
from benchmarks.models import DTYPES
from benchmarks.zoo import Unet, import_torchvision

Made = tuple[nn.Module, tuple, dict[str, Any]]
Make = Callable[[torch.dtype, torch.device], Made]
_SERVED = {"freeze": True, "cuda_graphs": True}


def _put(build: Callable[[], nn.Module], dtype: torch.dtype, device: torch.device) -> nn.Module:
    with torch.device(device):
        return build().eval().to(device, dtype)


def _images(build: Callable[[], nn.Module], batch: int, side: int = 224) -> Make:
    return lambda dtype, device: (_put(build, dtype, device), (torch.randn(batch, 3, side, side, dtype=dtype, device=device),), {})


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        models = import_torchvision().models
        if hasattr(models.segmentation, name):
            return getattr(models.segmentation, name)(weights=None, weights_backbone=None)
        return getattr(models, name)(weights=None)

    return build


def _timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import_torchvision()
        import timm

        return timm.create_model(name, pretrained=False, **options)

    return build


def _hugging_face(model: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**sizes))

    return build


def _pixels(build: Callable[[], nn.Module], batch: int, side: int = 224) -> Make:
    return lambda dtype, device: (_put(build, dtype, device), (), {"pixel_values": torch.randn(batch, 3, side, side, dtype=dtype, device=device)})


def _text(build: Callable[[], nn.Module], batch: int, length: int, vocabulary: int, *others: str, masked: bool = False) -> Make:
    """Token numbers; ``others`` are further inputs of such; with ``masked`` the second half of the last sequence is padding."""
    def make(dtype: torch.dtype, device: torch.device) -> Made:
        kwargs = {n: torch.randint(5, vocabulary, (batch, length), device=device) for n in ("input_ids", *others)}
        if masked:
            kwargs["attention_mask"] = torch.ones(batch, length, dtype=torch.int64, device=device)
            kwargs["attention_mask"][-1, length // 2 :] = 0
        return _put(build, dtype, device), (), kwargs

    return make


def _whisper(dtype: torch.dtype, device: torch.device) -> Made:
    build = _hugging_face("WhisperModel", "WhisperConfig", d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
                          decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, use_cache=False)
    features = torch.randn(1, 80, 3000, dtype=dtype, device=device)
    return _put(build, dtype, device), (), {"input_features": features, "decoder_input_ids": torch.randint(5, 5000, (1, 64), device=device)}


def _wav2vec2(dtype: torch.dtype, device: torch.device) -> Made:
    return _put(_hugging_face("Wav2Vec2Model", "Wav2Vec2Config"), dtype, device), (torch.randn(4, 80000, dtype=dtype, device=device),), {}


class Residual(nn.Module):
    """Two convolutions behind group norms, as in the U-Nets of diffusion models (Ho et al. 2020)."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(32, channels), nn.GroupNorm(32, width)])
        self.time = nn.Linear(1280, width)
        self.skip = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.first(nn.functional.silu(self.norms[0](x))) + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(nn.functional.silu(self.norms[1](h)))


class Attend(nn.Module):
    """Attention of the pixels of an image."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.inner, self.outer, self.heads = nn.GroupNorm(32, width), nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, rows, columns = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.inner(tokens).chunk(3, -1))
        found = self.outer(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + found.transpose(1, 2).reshape(batch, width, rows, columns)


class Diffusion(nn.Module):
    """A U-Net of three levels between noise and noise, the size of Stable Diffusion's first three without its text."""

    def __init__(self) -> None:
        super().__init__()
        widths = (320, 640, 1280)
        self.enter, self.time = nn.Conv2d(4, 320, 3, padding=1), nn.Sequential(nn.Linear(320, 1280), nn.SiLU(), nn.Linear(1280, 1280))
        self.down = nn.ModuleList([Residual(a, b) for a, b in zip((320, 320, 640), widths)])
        self.halve = nn.ModuleList([nn.Conv2d(w, w, 3, stride=2, padding=1) for w in widths])
        self.attend = nn.ModuleList([Attend(w, 8) for w in widths])
        self.middle = Residual(1280, 1280)
        self.up = nn.ModuleList([Residual(a, b) for a, b in zip((2560, 1920, 960), (1280, 640, 320))])
        self.rise = nn.ModuleList([nn.Conv2d(w, w, 3, padding=1) for w in (1280, 1280, 640)])
        self.norm, self.leave = nn.GroupNorm(32, 320), nn.Conv2d(320, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x, time, kept = self.enter(x), self.time(time), []
        for block, attend, halve in zip(self.down, self.attend, self.halve):
            x = attend(block(x, time))
            kept.append(x)
            x = halve(x)
        x = self.middle(x, time)
        for block, rise in zip(self.up, self.rise):
            x = rise(nn.functional.interpolate(x, scale_factor=2.0))
            x = block(torch.cat([x, kept.pop()], 1), time)
        return self.leave(nn.functional.silu(self.norm(x)))


def _diffusion(dtype: torch.dtype, device: torch.device) -> Made:
    return _put(Diffusion, dtype, device), tuple(torch.randn(2, *s, dtype=dtype, device=device) for s in ((4, 64, 64), (320,))), {}


class Recommender(nn.Module):
    """DLRM (Naumov et al. 2019): tables of features, products of all pairs, two perceptrons."""

    def __init__(self, tables: int = 26, rows: int = 100_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        products = rows @ rows.transpose(1, 2)
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))


def _recommender(dtype: torch.dtype, device: torch.device) -> Made:
    dense, sparse = torch.randn(2048, 13, dtype=dtype, device=device), torch.randint(0, 100_000, (2048, 26, 4), device=device)
    return _put(Recommender, dtype, device), (dense, sparse), {}


class Graph(nn.Module):
    """Three graph convolutions (Kipf and Welling 2017) over a list of edges."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        degree = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1)
        for layer in self.layers:
            x = torch.relu(torch.zeros_like(x).index_add(0, target, layer(x)[source]) / degree[:, None] + x)
        return x


def _graph(dtype: torch.dtype, device: torch.device) -> Made:
    edges = torch.randint(0, 20_000, (2, 200_000), device=device)
    return _put(Graph, dtype, device), (torch.randn(20_000, 128, dtype=dtype, device=device), edges[0], edges[1]), {}


def _encoder(dtype: torch.dtype, device: torch.device) -> Made:
    def build() -> nn.Module:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6, enable_nested_tensor=False)

    return _put(build, dtype, device), (torch.randn(32, 128, 512, dtype=dtype, device=device),), {}


def _lstm(dtype: torch.dtype, device: torch.device) -> Made:
    return _put(lambda: nn.LSTM(512, 512, 2, batch_first=True), dtype, device), (torch.randn(8, 64, 512, dtype=dtype, device=device),), {}


def _radiance(dtype: torch.dtype, device: torch.device) -> Made:
    """A radiance field's perceptron (Mildenhall et al. 2020) with its encoding of positions."""
    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(63 if i == 0 else 319 if i == 5 else 256, 256) for i in range(8)])
            self.leave = nn.Linear(256, 4)

        def forward(self, points: torch.Tensor) -> torch.Tensor:
            angles = (points[..., None] * 2 ** torch.arange(10, device=points.device)).flatten(1)
            code = torch.cat([points, angles.sin(), angles.cos()], 1)
            x = code
            for i, layer in enumerate(self.layers):
                x = torch.relu(layer(torch.cat([code, x], 1) if i == 5 else x))
            return self.leave(x)

    return _put(Field, dtype, device), (torch.rand(65536, 3, dtype=dtype, device=device),), {}


_GEMMA = {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "vocab_size": 32000, "use_cache": False,
}
_EXPERTS = {
    "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "use_cache": False,
}

NETWORKS: dict[str, tuple[str, Make]] = {
    "mobilenet_v2 1": ("f32", _images(_torchvision("mobilenet_v2"), 1)),
    "mobilenet_v2 32": ("bf16", _images(_torchvision("mobilenet_v2"), 32)),
    "efficientnet_b0 32": ("bf16", _images(_torchvision("efficientnet_b0"), 32)),
    "convnext_tiny 32": ("bf16", _images(_torchvision("convnext_tiny"), 32)),
    "swin_t 32": ("bf16", _images(_torchvision("swin_t"), 32)),
    "densenet121 32": ("bf16", _images(_torchvision("densenet121"), 32)),
    "vgg16 32": ("bf16", _images(_torchvision("vgg16"), 32)),
    "resnet18 1": ("f32", _images(_torchvision("resnet18"), 1)),
    "regnet_y_1_6gf 32": ("bf16", _images(_torchvision("regnet_y_1_6gf"), 32)),
    "shufflenet_v2_x1_0 32": ("bf16", _images(_torchvision("shufflenet_v2_x1_0"), 32)),
    "mixer_b16 32": ("bf16", _images(_timm("mixer_b16_224"), 32)),
    "mobilevit_s 32": ("bf16", _images(_timm("mobilevit_s"), 32, 256)),
    "unet of 64 channels 8x256x256": ("bf16", _images(lambda: Unet(64), 8, 256)),
    "diffusion unet 2x64x64": ("bf16", _diffusion),
    "segformer-b0 4x512x512": ("bf16", _pixels(_hugging_face("SegformerForSemanticSegmentation", "SegformerConfig"), 4, 512)),
    "dinov2-base 16": ("bf16", _pixels(_hugging_face("Dinov2Model", "Dinov2Config", image_size=224), 16)),
    "clip-vit-b/32 32": ("bf16", _pixels(_hugging_face("CLIPVisionModel", "CLIPVisionConfig"), 32)),
    "whisper-base 1x3000, 64 tokens": ("bf16", _whisper),
    "wav2vec2-base 4x80000": ("bf16", _wav2vec2),
    "distilbert 8x128, padded": ("f32", _text(_hugging_face("DistilBertModel", "DistilBertConfig"), 8, 128, 30000, masked=True)),
    "deberta-v3-base 8x128": ("bf16", _text(_hugging_face(
        "DebertaV2Model", "DebertaV2Config", hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, vocab_size=128100,
        relative_attention=True, position_buckets=256, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
    ), 8, 128, 30000)),
    "modernbert-base 4x512": ("bf16", _text(_hugging_face("ModernBertModel", "ModernBertConfig"), 4, 512, 30000)),
    "t5-small 8x128": ("bf16", _text(_hugging_face("T5Model", "T5Config", use_cache=False), 8, 128, 30000, "decoder_input_ids")),
    "bart-base 8x128": ("bf16", _text(_hugging_face(
        "BartModel", "BartConfig", d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072, use_cache=False,
    ), 8, 128, 30000)),
    "gemma2-2b, 4 layers, 1x1024": ("bf16", _text(_hugging_face("Gemma2Model", "Gemma2Config", **_GEMMA), 1, 1024, 30000)),
    "mixtral, 4 small layers, 1x256": ("bf16", _text(_hugging_face("MixtralModel", "MixtralConfig", **_EXPERTS), 1, 256, 30000)),
    "transformer encoder 32x128x512": ("f32", _encoder),
    "lstm 8x64x512": ("f32", _lstm),
    "dlrm 2048": ("bf16", _recommender),
    "graph convolutions 20000x128": ("f32", _graph),
    "radiance field 65536": ("bf16", _radiance),
}

# More of timm's, of which a run times a few: batches of 16 images in bf16.
OTHERS = (
    "maxvit_tiny_tf_224", "resnest50d", "hrnet_w18", "ghostnet_100", "xcit_nano_12_p16_224", "twins_pcpvt_small", "fastvit_t8", "repvit_m1",
    "cait_xxs24_224", "mixnet_s", "nf_resnet50", "edgenext_small", "coat_lite_tiny", "efficientformerv2_s0", "skresnet18", "volo_d1_224", "crossvit_tiny_240",
)
_SIDES = {"nf_resnet50": 256, "edgenext_small": 256, "crossvit_tiny_240": 240}


def _case(name: str, type_: str, make: Make, core: bool = True) -> Case:
    options: dict[str, Any] = {"options": _SERVED, "variants": {"defaults": {}}}
    return Case(f"{name} {type_}", lambda device: make(DTYPES[type_], device), group="networks", core=core, **options)


SUITES: dict[str, list[Case]] = {
    "networks": [
        *(_case(name, *made) for name, made in NETWORKS.items()),
        *(_case(f"{name} 16", "bf16", _images(_timm(name), 16, _SIDES.get(name, 224)), core=False) for name in OTHERS),
    ],
}
