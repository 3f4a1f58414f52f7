"""The zoo: small models of many architectures, from their libraries' own classes, with random weights.

``ZOO`` maps a name to a function of no arguments that gives (model, args, kwargs) on the CPU in float32, in eval mode.  A name
before a colon is the library that must be installed: ``torchvision:resnet18``; without one it is transformers', or torch's alone
for the few that are written here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

Build = Callable[[], tuple[nn.Module, tuple, dict[str, Any]]]

_WIDTH = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_ENCODER = {**_WIDTH, "vocab_size": 99, "max_position_embeddings": 64, "pad_token_id": 0}
_DECODER = {**_ENCODER, "num_key_value_heads": 2, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
_MULTI = {k: v for k, v in _DECODER.items() if k != "num_key_value_heads"}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
_VISION = {**_WIDTH, "image_size": 32, "patch_size": 8, "num_channels": 3}
_SIDE = 32  # of images
_LENGTH = 12  # of token sequences


def _model(name: str, config: str, sizes: dict[str, Any], **nested: tuple[str, dict[str, Any]]) -> nn.Module:
    """A transformers model; ``nested`` configurations are (class name, sizes)."""
    import transformers

    parts = {key: getattr(transformers, cls)(**inner) for key, (cls, inner) in nested.items()}
    return getattr(transformers, name)(getattr(transformers, config)(**sizes, **parts)).eval()


def _ids(length: int = _LENGTH, batch: int = 2, vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(3, vocabulary, (batch, length))


def _padding(length: int = _LENGTH) -> torch.Tensor:
    """A mask of two sequences, the second of which is shorter."""
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length - 3 :] = 0
    return mask


def _text(name: str, config: str, sizes: dict[str, Any], masked: bool = False, more: dict[str, Any] | None = None) -> Build:
    def build() -> tuple:
        model = _model(name, config, sizes)
        kwargs = {"input_ids": _ids()}
        if masked:
            kwargs["attention_mask"] = _padding()
        return model, (), {**kwargs, **(more or {})}

    return build


def _translation(name: str, config: str, sizes: dict[str, Any]) -> Build:
    """An encoder and a decoder of tokens."""
    def build() -> tuple:
        return _model(name, config, sizes), (), {"input_ids": _ids(), "decoder_input_ids": _ids(7), "use_cache": False}

    return build


def _image(name: str, config: str, sizes: dict[str, Any], side: int = _SIDE, more: dict[str, Any] | None = None) -> Build:
    def build() -> tuple:
        return _model(name, config, sizes), (), {"pixel_values": torch.randn(2, 3, side, side), **(more or {})}

    return build


def _whisper() -> tuple:
    sizes = {
        "vocab_size": 99, "num_mel_bins": 16, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_source_positions": 20, "max_target_positions": 32,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    }
    model = _model("WhisperForConditionalGeneration", "WhisperConfig", sizes)
    return model, (), {"input_features": torch.randn(1, 16, 40), "decoder_input_ids": _ids(7, 1), "use_cache": False}


def _speech(name: str, config: str) -> Build:
    """An encoder of waves."""
    sizes = {
        **_WIDTH, "vocab_size": 32, "conv_dim": (32, 32, 32), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3),
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "num_feat_extract_layers": 3,
    }
    return lambda: (_model(name, config, sizes), (torch.randn(1, 1600),), {})


def _clip() -> tuple:
    text = {**_WIDTH, "vocab_size": 99, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    model = _model("CLIPModel", "CLIPConfig", {"text_config": text, "vision_config": _VISION, "projection_dim": 32})
    pairs = 8  # the errors of 2 x 2 similarities say little
    return model, (), {"input_ids": _ids(batch=pairs), "pixel_values": torch.randn(pairs, 3, _SIDE, _SIDE)}


def _encodec() -> tuple:
    sizes = {
        "num_filters": 4, "hidden_size": 16, "codebook_size": 16, "codebook_dim": 16, "upsampling_ratios": [4, 2], "num_lstm_layers": 1,
        "sampling_rate": 16000, "target_bandwidths": [24.0],
    }
    return _model("EncodecModel", "EncodecConfig", sizes), (torch.randn(1, 1, 256),), {}


def _patchtst() -> tuple:
    sizes = {
        "num_input_channels": 3, "context_length": 32, "patch_length": 4, "patch_stride": 4, "d_model": 32, "ffn_dim": 128, "prediction_length": 8,
        "num_hidden_layers": 2, "num_attention_heads": 4,
    }
    return _model("PatchTSTForPrediction", "PatchTSTConfig", sizes), (torch.randn(2, 32, 3),), {}


def _timesfm() -> tuple:
    sizes = {**_WIDTH, "patch_length": 4, "context_length": 32, "horizon_length": 8, "freq_size": 3, "head_dim": 16}
    model = _model("TimesFmModelForPrediction", "TimesFmConfig", sizes)
    return model, (), {"past_values": [torch.randn(32), torch.randn(20)], "freq": torch.tensor([0, 1])}


def _perceiver() -> tuple:
    sizes = {
        "d_latents": 32, "d_model": 32, "num_latents": 6, "num_blocks": 1, "num_self_attends_per_block": 2, "num_self_attention_heads": 2,
        "num_cross_attention_heads": 2, "max_position_embeddings": 16, "vocab_size": 60, "qk_channels": 16, "v_channels": 32,
    }
    return _model("PerceiverForMaskedLM", "PerceiverConfig", sizes), (), {"inputs": _ids(16, vocabulary=60), "attention_mask": _padding(16)}


def _deformable_detr() -> tuple:
    backbone = {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1], "out_features": ["stage2", "stage3", "stage4"]}
    sizes = {
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "num_feature_levels": 3, "encoder_n_points": 2, "decoder_n_points": 2, "num_queries": 5,
    }
    model = _model("DeformableDetrForObjectDetection", "DeformableDetrConfig", sizes, backbone_config=("ResNetConfig", backbone))
    return model, (), {"pixel_values": torch.randn(1, 3, 64, 64)}


def _sam() -> tuple:
    vision = ("SamVisionConfig", {
        "hidden_size": 32, "output_channels": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8,
        "mlp_dim": 64, "global_attn_indexes": [1], "window_size": 4, "use_rel_pos": True, "num_pos_feats": 16,
    })
    prompt = ("SamPromptEncoderConfig", {"hidden_size": 32, "image_size": 64, "patch_size": 8, "mask_input_channels": 8, "image_embedding_size": 8})
    mask = ("SamMaskDecoderConfig", {"hidden_size": 32, "mlp_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "iou_head_hidden_dim": 32})
    model = _model("SamModel", "SamConfig", {}, vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=mask)
    points = {"input_points": torch.rand(1, 1, 2, 2) * 64, "input_labels": torch.ones(1, 1, 2, dtype=torch.int64)}
    return model, (), {"pixel_values": torch.randn(1, 3, 64, 64), **points}


class Unet(nn.Module):
    """U-Net (Ronneberger et al. 2015) of two levels: convolutions, pooling, transposed convolutions, skip connections."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.enter, self.down, self.deep = self._pair(3, width), self._pair(width, 2 * width), self._pair(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.first_up, self.second_up = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.first, self.second = self._pair(4 * width, 2 * width), self._pair(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _pair(channels: int, width: int) -> nn.Module:
        layers = []
        for given in (channels, width):
            layers += [nn.Conv2d(given, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = self.enter(x)
        middle = self.down(self.pool(top))
        x = self.first(torch.cat([self.first_up(self.deep(self.pool(middle))), middle], 1))
        return self.head(self.second(torch.cat([self.second_up(x), top], 1)))


class Recurrent(nn.Module):
    """Token embedding, a two-layer LSTM or GRU, and a head."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(99, 16)
        self.cells = kind(16, 24, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(24 * (1 + self.cells.bidirectional), 10)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, Any]:
        hidden, state = self.cells(self.embed(ids))
        return self.head(hidden), state


def _transformer() -> tuple:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    return model, (torch.randn(2, 9, 32), torch.randn(2, 7, 32)), {"tgt_mask": mask, "tgt_is_causal": True}


def _own(make: Callable[[], nn.Module], *inputs: Callable[[], torch.Tensor]) -> Build:
    return lambda: (make().eval(), tuple(i() for i in inputs), {})


def _torchvision(name: str, side: int = 64, batch: int = 1, **options: Any) -> Build:
    def build() -> tuple:
        models = import_torchvision().models
        place = models.segmentation if hasattr(models.segmentation, name) else models
        extra = {} if "aux_logits" in options else {"weights": None}
        if place is models.segmentation:
            extra["weights_backbone"] = None
        return getattr(place, name)(num_classes=10, **extra, **options).eval(), (torch.randn(batch, 3, side, side),), {}

    return build


def _densenet() -> tuple:
    model = import_torchvision().models.DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=10)
    return model.eval(), (torch.randn(1, 3, 64, 64),), {}


def _timm(name: str, side: int = 64, **options: Any) -> Build:
    def build() -> tuple:
        import_torchvision()
        import timm

        return timm.create_model(name, num_classes=10, pretrained=False, **options).eval(), (torch.randn(1, 3, side, side),), {}

    return build


def _diffusers(name: str, sizes: dict[str, Any], *inputs: Callable[[], torch.Tensor], **named: Callable[[], torch.Tensor]) -> Build:
    def build() -> tuple:
        import diffusers

        return getattr(diffusers, name)(**sizes).eval(), tuple(i() for i in inputs), {k: i() for k, i in named.items()}

    return build


def import_torchvision() -> Any:
    """torchvision, also where its compiled operators do not fit torch: its models need none of them but at their import."""
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

        torchvision._declared = library  # as long as the module
    return torchvision


_CNN = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 10}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "num_labels": 10}
_SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "num_labels": 10}
_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
_T5 = {
    "vocab_size": 99, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0, "pad_token_id": 0,
}
_BART = {
    "vocab_size": 99, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}
_XLNET = {"vocab_size": 99, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_MLA = {
    "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "head_dim": 8, "num_key_value_heads": 4, "first_k_dense_replace": 1,
}
_GEMMA = {**_DECODER, "head_dim": 16}
_MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 99, "use_cache": False, "pad_token_id": 0}

ZOO: dict[str, Build] = {
    # encoders of text
    "bert": _text("BertModel", "BertConfig", _ENCODER, masked=True),
    "roberta": _text("RobertaForMaskedLM", "RobertaConfig", _ENCODER, masked=True),
    "deberta": _text("DebertaModel", "DebertaConfig", {**_ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, masked=True),
    "deberta-v2": _text(
        "DebertaV2Model", "DebertaV2Config", {**_ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        masked=True,
    ),
    "distilbert": _text(
        "DistilBertModel", "DistilBertConfig",
        {"vocab_size": 99, "dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}, masked=True,
    ),
    "electra": _text("ElectraForPreTraining", "ElectraConfig", {**_ENCODER, "embedding_size": 32}),
    "albert": _text("AlbertModel", "AlbertConfig", {**_ENCODER, "embedding_size": 32}, masked=True),
    "mpnet": _text("MPNetModel", "MPNetConfig", {**_ENCODER, "pad_token_id": 1}),
    "modernbert": _text(
        "ModernBertModel", "ModernBertConfig",
        {**_ENCODER, "local_attention": 8, "global_attn_every_n_layers": 2, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        masked=True,
    ),
    "xlnet": _text("XLNetLMHeadModel", "XLNetConfig", _XLNET),
    "funnel": _text(
        "FunnelForMaskedLM", "FunnelConfig",
        {"vocab_size": 99, "d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 128, "block_sizes": [1, 1], "num_decoder_layers": 1}, masked=True,
    ),
    "longformer": _text(
        "LongformerForMaskedLM", "LongformerConfig", {**_ENCODER, "attention_window": 4, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}, masked=True,
    ),
    "perceiver": _perceiver,
    # decoders
    "gpt2": _text("GPT2LMHeadModel", "GPT2Config", _GPT),
    "gpt-neo": _text(
        "GPTNeoForCausalLM", "GPTNeoConfig",
        {
            "hidden_size": 64, "num_layers": 2, "num_heads": 4, "intermediate_size": 128, "vocab_size": 99, "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]], "window_size": 6, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2,
        },
    ),
    "gpt-neox": _text("GPTNeoXForCausalLM", "GPTNeoXConfig", _MULTI),
    "gpt-j": _text("GPTJForCausalLM", "GPTJConfig", {**_GPT, "rotary_dim": 8}),
    "opt": _text(
        "OPTForCausalLM", "OPTConfig",
        {
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 99, "max_position_embeddings": 64,
            "word_embed_proj_dim": 64, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        },
    ),
    "llama": _text("LlamaForCausalLM", "LlamaConfig", _DECODER),
    "llama-padded": _text("LlamaForCausalLM", "LlamaConfig", _DECODER, masked=True),
    "qwen2": _text("Qwen2ForCausalLM", "Qwen2Config", _DECODER),
    "qwen3": _text("Qwen3ForCausalLM", "Qwen3Config", {**_DECODER, "head_dim": 16}),
    "mistral": _text("MistralForCausalLM", "MistralConfig", {**_DECODER, "sliding_window": 6}),
    "mixtral": _text("MixtralForCausalLM", "MixtralConfig", {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3-moe": _text("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**_DECODER, **_EXPERTS, "head_dim": 16, "num_experts": 4}),
    "gemma2": _text("Gemma2ForCausalLM", "Gemma2Config", {**_GEMMA, "query_pre_attn_scalar": 16, "sliding_window": 6}),
    "gemma3": _text("Gemma3ForCausalLM", "Gemma3TextConfig", {**_GEMMA, "query_pre_attn_scalar": 16, "sliding_window": 6}),
    "phi": _text("PhiForCausalLM", "PhiConfig", {**_DECODER, "partial_rotary_factor": 0.5}),
    "phi3": _text("Phi3ForCausalLM", "Phi3Config", _DECODER),
    "falcon": _text("FalconForCausalLM", "FalconConfig", {**{k: v for k, v in _MULTI.items() if k != "intermediate_size"}, "ffn_hidden_size": 128}),
    "bloom": _text(
        "BloomForCausalLM", "BloomConfig",
        {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "stablelm": _text("StableLmForCausalLM", "StableLmConfig", _DECODER),
    "olmo2": _text("Olmo2ForCausalLM", "Olmo2Config", _DECODER),
    "mamba": _text("MambaForCausalLM", "MambaConfig", _MAMBA),
    "mamba2": _text("Mamba2ForCausalLM", "Mamba2Config", {**_MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    "big-bird": _text("BigBirdForCausalLM", "BigBirdConfig", {**_ENCODER, "is_decoder": True, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}),
    "deepseek-v3": _text("DeepseekV3ForCausalLM", "DeepseekV3Config", {**_DECODER, **_EXPERTS, **_MLA}),
    "recurrent-gemma": _text(
        "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig",
        {**_DECODER, "head_dim": 16, "lru_width": 64, "attention_window_size": 6, "block_types": ["recurrent", "attention"]},
    ),
    "rwkv": _text(
        "RwkvForCausalLM", "RwkvConfig",
        {
            "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 2, "attention_hidden_size": 64, "intermediate_size": 128, "use_cache": False,
            "bos_token_id": 1, "eos_token_id": 2,
        },
    ),
    "xlstm": _text(
        "xLSTMForCausalLM", "xLSTMConfig",
        {"vocab_size": 99, "hidden_size": 64, "embedding_dim": 64, "num_blocks": 2, "num_heads": 4, "chunk_size": 4, "use_cache": False, "bos_token_id": 1},
    ),
    "jamba": _text(
        "JambaForCausalLM", "JambaConfig",
        {**_DECODER, "num_experts": 4, "mamba_d_state": 8, "mamba_dt_rank": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    ),
    "falcon-h1": _text(
        "FalconH1ForCausalLM", "FalconH1Config",
        {**_DECODER, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 4},
    ),
    # encoder and decoder
    "t5": _translation("T5ForConditionalGeneration", "T5Config", _T5),
    "bart": _translation("BartForConditionalGeneration", "BartConfig", _BART),
    "marian": _translation("MarianMTModel", "MarianConfig", {**_BART, "forced_eos_token_id": 0, "eos_token_id": 0}),
    "pegasus-x": _translation("PegasusXForConditionalGeneration", "PegasusXConfig", {**_BART, "block_size": 4, "num_global_tokens": 2}),
    # sound and series
    "whisper": _whisper,
    "wav2vec2": _speech("Wav2Vec2ForCTC", "Wav2Vec2Config"),
    "wavlm": _speech("WavLMForCTC", "WavLMConfig"),
    "encodec": _encodec,
    "patchtst": _patchtst,
    "timesfm": _timesfm,
    # images and text
    "clip": _clip,
    "siglip-vision": _image("SiglipVisionModel", "SiglipVisionConfig", _VISION),
    "vit": _image("ViTForImageClassification", "ViTConfig", {**_VISION, "num_labels": 10}),
    "deit": _image("DeiTModel", "DeiTConfig", _VISION),
    "beit": _image("BeitModel", "BeitConfig", {**_VISION, "use_relative_position_bias": True}),
    "dinov2": _image("Dinov2Model", "Dinov2Config", {**{k: v for k, v in _VISION.items() if k != "intermediate_size"}, "mlp_ratio": 2}),
    "swin": _image("SwinForImageClassification", "SwinConfig", _SWIN),
    "swinv2": _image("Swinv2ForImageClassification", "Swinv2Config", _SWIN),
    "convnext": _image("ConvNextForImageClassification", "ConvNextConfig", {**_STAGES, "num_stages": 4}),
    "convnextv2": _image("ConvNextV2ForImageClassification", "ConvNextV2Config", {**_STAGES, "num_stages": 4}),
    "resnet": _image("ResNetForImageClassification", "ResNetConfig", _CNN),
    "resnet-basic": _image("ResNetForImageClassification", "ResNetConfig", {**_CNN, "layer_type": "basic"}),
    "regnet": _image("RegNetForImageClassification", "RegNetConfig", {**_CNN, "groups_width": 8}),
    "mobilenet-v1": _image("MobileNetV1ForImageClassification", "MobileNetV1Config", {"depth_multiplier": 0.25, "image_size": 32, "num_labels": 10}),
    "mobilenet-v2": _image("MobileNetV2ForImageClassification", "MobileNetV2Config", {"depth_multiplier": 0.25, "image_size": 32, "num_labels": 10}),
    "efficientnet": _image(
        "EfficientNetForImageClassification", "EfficientNetConfig",
        {
            "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320, "num_labels": 10, "kernel_sizes": [3, 3, 5, 3],
            "in_channels": [32, 16, 24, 40], "out_channels": [16, 24, 40, 80], "strides": [1, 2, 2, 2], "num_block_repeats": [1, 2, 2, 3],
            "expand_ratios": [1, 6, 6, 6], "depthwise_padding": [],
        },
    ),
    "segformer": _image(
        "SegformerForSemanticSegmentation", "SegformerConfig",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16, "num_labels": 4}, 64,
    ),
    "yolos": _image("YolosForObjectDetection", "YolosConfig", {**_VISION, "image_size": [32, 32], "num_detection_tokens": 5, "num_labels": 4}),
    "deformable-detr": _deformable_detr,
    "dpt": _image(
        "DPTForDepthEstimation", "DPTConfig",
        {**_VISION, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 16, 24, 32], "fusion_hidden_size": 16},
    ),
    "vit-mae": _image("ViTMAEModel", "ViTMAEConfig", {**_VISION, "mask_ratio": 0.5}, more={"noise": torch.linspace(0, 1, 32).reshape(2, 16).cos()}),
    "sam": _sam,
    # written here, of torch's layers
    "unet": _own(Unet, lambda: torch.randn(1, 3, 32, 32)),
    "lstm": _own(lambda: Recurrent(nn.LSTM), _ids),
    "lstm-bidirectional": _own(lambda: Recurrent(nn.LSTM, bidirectional=True), _ids),
    "gru": _own(lambda: Recurrent(nn.GRU), _ids),
    "transformer": _transformer,
    # torchvision
    "torchvision:resnet18": _torchvision("resnet18"),
    "torchvision:densenet": _densenet,
    "torchvision:mobilenet_v3_small": _torchvision("mobilenet_v3_small"),
    "torchvision:shufflenet_v2_x0_5": _torchvision("shufflenet_v2_x0_5"),
    "torchvision:squeezenet1_1": _torchvision("squeezenet1_1"),
    "torchvision:googlenet": _torchvision("googlenet", aux_logits=False, init_weights=False),
    "torchvision:efficientnet_b0": _torchvision("efficientnet_b0", batch=4),
    "torchvision:regnet_y_400mf": _torchvision("regnet_y_400mf"),
    "torchvision:lraspp_mobilenet_v3_large": _torchvision("lraspp_mobilenet_v3_large"),
    # timm
    "timm:mixer": _timm("mixer_s32_224", img_size=64),
    "timm:mobilevit_xxs": _timm("mobilevit_xxs"),
    "timm:poolformer": _timm("poolformer_s12"),
    "timm:levit": _timm("levit_128s", img_size=64),
    "timm:efficientvit": _timm("efficientvit_b0"),
    "timm:repvgg": _timm("repvgg_a0"),
    "timm:eva02": _timm("eva02_tiny_patch14_224", 56, img_size=56, depth=2),
    "timm:pvt_v2": _timm("pvt_v2_b0"),
    # diffusers: image, time, text
    "diffusers:unet_condition": _diffusers(
        "UNet2DConditionModel",
        {
            "sample_size": 16, "block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4, "cross_attention_dim": 32,
            "attention_head_dim": 8, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        },
        lambda: torch.randn(1, 4, 16, 16), lambda: torch.tensor([3]), lambda: torch.randn(1, 7, 32),
    ),
    "diffusers:sd3": _diffusers(
        "SD3Transformer2DModel",
        {
            "sample_size": 16, "patch_size": 2, "in_channels": 4, "num_layers": 2, "attention_head_dim": 8, "num_attention_heads": 4,
            "joint_attention_dim": 32, "caption_projection_dim": 32, "pooled_projection_dim": 16, "out_channels": 4, "pos_embed_max_size": 16,
        },
        lambda: torch.randn(1, 4, 16, 16), lambda: torch.randn(1, 7, 32), lambda: torch.randn(1, 16), lambda: torch.tensor([3]),
    ),
    "diffusers:flux": _diffusers(
        "FluxTransformer2DModel",
        {
            "in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2, "joint_attention_dim": 32,
            "pooled_projection_dim": 32, "axes_dims_rope": (4, 4, 8),
        },
        hidden_states=lambda: torch.randn(1, 16, 4), encoder_hidden_states=lambda: torch.randn(1, 7, 32), pooled_projections=lambda: torch.randn(1, 32),
        timestep=lambda: torch.tensor([0.3]), img_ids=lambda: torch.randint(0, 4, (16, 3)).float(), txt_ids=lambda: torch.zeros(7, 3),
    ),
}


def library_of(name: str) -> str:
    """The library that the model needs besides torch."""
    if ":" in name:
        return name.partition(":")[0]
    return "torch" if ZOO[name].__module__ == __name__ and name in ("unet", "lstm", "lstm-bidirectional", "gru", "transformer") else "transformers"


def shard(index: int, count: int, only: str | None = None) -> Iterator[str]:
    """Every ``count``-th name from ``index`` on, of those that hold ``only``."""
    names = [n for n in ZOO if only is None or only in n]
    yield from names[index::count]
