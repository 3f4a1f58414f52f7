"""The whole layers that ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` call in inference, in their parts."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten


def encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool,
    norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor,
    ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor, mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:
    """Vaswani et al. 2017: attention and a network of two layers, each added to its input, with norms before or after.  Batch first."""
    if mask is not None or src.dim() != 3:
        return NotImplemented

    def attend(x: Tensor) -> Tensor:
        return _attend(x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)

    def feed(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(first(src))
        return src + feed(second(src))
    src = first(src + attend(src))
    return second(src + feed(src))


def self_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Of one sequence with itself, without a mask; the second result is empty, as it is where no weights are asked for."""
    if mask is not None or need_weights or query is not key or query is not value or query.dim() != 3:
        return NotImplemented
    return _attend(query, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias), query.new_empty(0)


def _attend(x: Tensor, heads: int, weight: Tensor, bias: Tensor, out_weight: Tensor, out_bias: Tensor) -> Tensor:
    batch, length, width = x.shape
    parts = F.linear(x, weight, bias).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    q, k, v = parts[0], parts[1], parts[2]
    scores = torch.softmax((q * (1 / math.sqrt(width // heads))) @ k.transpose(-1, -2), -1)
    return F.linear((scores @ v).transpose(1, 2).reshape(batch, length, width), out_weight, out_bias)


TABLE = {
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
    aten._native_multi_head_attention.default: self_attention,
}
