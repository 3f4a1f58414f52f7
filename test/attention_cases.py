"""Attention in many forms, the way to have each as one kernel function, and what such a function says in float64."""

from collections.abc import Callable

import torch
from torch import Tensor

from inferno.capture import capture
from inferno.mlir import arith, ir, walk
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import callee, main_and_kernels, root_of
from inferno.runtime.workers import jobs
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.matmul.contraction import Group, Map

F = torch.nn.functional
sdpa = F.scaled_dot_product_attention


def _by_hand(q, k, v, change=lambda s: s):
    return torch.softmax(change(q @ k.transpose(-1, -2) / 4), -1) @ v


def _repeated(q, k, v):
    k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, -1, 16) for x in (k, v))
    return _by_hand(q, k, v)


def _window(s):
    i, j = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
    return s.masked_fill((j > i) | (i - j >= 5), -torch.inf)


def _added(s):
    return s + torch.full(s.shape[-2:], torch.finfo(s.dtype).min, dtype=s.dtype).triu(1)


def _causal_and_padding(s, mask):
    """Rows of which all is masked have the same weight everywhere."""
    i, j = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
    return torch.where((j <= i) & mask, s, torch.finfo(s.dtype).min)


def _alibi(s, slopes):
    return s - (torch.arange(s.shape[-2])[:, None] - torch.arange(s.shape[-1])).abs() * slopes[:, None, None]


def with_sinks(q, k, v, sinks):
    """As gpt-oss has it: a further score for each head, without a value."""
    scores = _added(q @ k.transpose(-1, -2) / 4)
    scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)], -1)
    scores = scores - scores.max(-1, keepdim=True).values
    return torch.softmax(scores, -1, dtype=scores.dtype)[..., :-1] @ v


def softmax1(q, k, v, largest=lambda s: s.amax(-1, keepdim=True).clamp(min=0)):
    """Each row has a further score of 0, as exp(s) / (1 + sum of exp(s)) says."""
    scores = q @ k.transpose(-1, -2) / 4
    most = largest(scores)
    powers = torch.exp(scores - most)
    return powers / (torch.exp(-most) + powers.sum(-1, keepdim=True)) @ v


def softmax1_below_the_largest(q, k, v):
    """As some have it, who subtract the largest score first."""
    scores = q @ k.transpose(-1, -2) / 4
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / (1 + powers.sum(-1, keepdim=True)) @ v


def _powers(q, k, v, more):
    """No largest score is subtracted."""
    powers = torch.exp(_added(q @ k.transpose(-1, -2) / 4))
    return powers / (powers.sum(-1, keepdim=True) + more) @ v


def of_images(q, k, v, rows, columns):
    """Biases of a query and each row of an image, and of it and each column: [..., rows], [..., columns]."""
    size = (rows.shape[-1], columns.shape[-1])
    scores = (q @ k.transpose(-1, -2) / 4).unflatten(-1, size)
    return torch.softmax((scores + rows[..., None] + columns[..., None, :]).flatten(-2), -1) @ v


def relative(q, k, v, scores):
    """As Conformers have it: of what queries say of each distance, [..., 2 n - 1], those of rows are shifted by one more each, without a look-up."""
    n, distances = scores.shape[-2:]
    shifted = F.pad(scores, (1, 0)).reshape(*scores.shape[:2], distances + 1, n)[:, :, 1:].reshape(scores.shape)[..., :n]
    return torch.softmax((q @ k.transpose(-1, -2) + shifted) / 4, -1) @ v


def conformer(q, k, v, table, of_content, of_places):
    """As Wav2Vec2-Conformer has it: two vectors are added to queries, which are multiplied with keys and with what stands for distances."""
    scores = (q + of_places[:, None]) @ table.transpose(-1, -2)
    shifted = torch.cat([scores.new_zeros(*scores.shape[:-1], 1), scores], -1).view(*scores.shape[:2], -1, scores.shape[2])[:, :, 1:].view_as(scores)
    scores = (q + of_content[:, None]) @ k.transpose(-1, -2) + shifted[..., :scores.shape[-1] // 2 + 1]
    return torch.softmax(scores / q.shape[-1]**0.5, -1) @ v


def sam(q, k, v, rows, columns):
    """As SAM's image encoder has it: products of queries with what tables say of distances, in heights and in widths."""
    batch, heads, _, depth = q.shape
    h, w = (t.shape[0] // 2 + 1 for t in (rows, columns))
    tables = [t[torch.arange(n, device=t.device)[:, None] - torch.arange(n, device=t.device) + n - 1] for t, n in ((rows, h), (columns, w))]
    image = q.reshape(batch * heads, h, w, depth)
    of_rows, of_columns = torch.einsum("bhwc,hkc->bhwk", image, tables[0]), torch.einsum("bhwc,wkc->bhwk", image, tables[1])
    scores = ((q * depth**-0.5) @ k.transpose(-2, -1)).view(batch * heads, h, w, h, w)
    scores = scores + of_rows[..., :, None] + of_columns[..., None, :]
    return torch.softmax(scores.view(batch, heads, h * w, h * w), -1) @ v


def gated(q, k, v, gates):
    """As Qwen3-Next has it: what a projection gives beside queries, [batch, queries, heads, 2 depth], opens and closes results."""
    _, gates = gates.chunk(2, -1)
    out = sdpa(q, k, v, is_causal=True).transpose(1, 2)
    return out.flatten(2) * torch.sigmoid(gates.flatten(2))


def _causal(s):
    return torch.arange(s.shape[-1], device=s.device) <= torch.arange(s.shape[-2], device=s.device)[:, None]


def weighted(weights):
    """Attention whose weights are made of scores alone."""
    return lambda q, k, v, *more: weights(q @ k.transpose(-1, -2) / 4, *more) @ v


def decayed(s, rates):
    """As RetNet has it: the weights of what is before decay."""
    queries, keys = (torch.arange(n, device=s.device) for n in s.shape[-2:])
    distances = queries[:, None] - keys
    return s * torch.where(distances >= 0, torch.exp(-distances * rates[:, None, None]), 0.0).to(s.dtype)


def normalised(s, least):
    """As RetNet divides it: by the sum of sizes, where that is more than ``least``."""
    return s.tril() / s.tril().abs().sum(-1, keepdim=True).clamp(min=least)


def positive(q, k, v):
    """Linear attention with positive features, as products of all pairs."""
    weights = ((F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-1, -2)).tril()
    return weights / (weights.sum(-1, keepdim=True) + 1e-6) @ v


def chunked(c, b, x, steps):
    """As Mamba-2 has it (SSD) inside of a chunk: weights decay by steps of their own, and few heads share keys and queries."""
    sums = torch.cumsum(steps, -1)
    between = (sums[..., :, None] - sums[..., None, :]).masked_fill(~_causal(sums[..., :, None] * sums[..., None, :]), -torch.inf)
    return torch.einsum("bin,bjn,bhij,bhjp->bhip", c, b, torch.exp(between).to(c.dtype), x)


WEIGHTS = {
    "sigmoid": weighted(lambda s: torch.sigmoid(s - 2.5)),
    "sigmoid, causal": weighted(lambda s: torch.sigmoid((s - 2.5).masked_fill(~_causal(s), -torch.inf))),
    "sigmoid, causal by a finite number": weighted(lambda s: torch.sigmoid(torch.where(_causal(s), s, -1e4))),
    "relu, squared, causal": weighted(lambda s: torch.relu(s).square().masked_fill(~_causal(s), 0) / s.shape[-1]),
    "linear, causal": weighted(lambda s: s.tril()),
    "linear, causal by a product": weighted(lambda s: s * _causal(s)),
    "divided by sizes, causal": weighted(lambda s: normalised(s, 1)),
    "divided by sums, causal": weighted(lambda s: (w := torch.relu(s).tril()) / (w.sum(-1, keepdim=True) + 0.01)),
    "powers that are hidden, causal": weighted(lambda s: (w := torch.exp(s) * _causal(s)) / w.sum(-1, keepdim=True)),
    "decayed": weighted(decayed),
}
"""Attention whose weights are no softmax."""


def _hidden_again(q, k, v, seen, least):
    """As ESPnet and DeBERTa have it: rows of which all is hidden give 0."""
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(~seen, least)
    return torch.softmax(scores, -1).masked_fill(~seen, 0) @ v


def _packed(x):
    q, k, v = x.unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
    return sdpa(q, k, v).transpose(1, 2).flatten(2)


def _operands(queries: int = 12, keys: int = 12, heads: int = 4, *more: Callable[[], Tensor]) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(2, 4, queries, 16), torch.randn(2, heads, keys, 16), torch.randn(2, heads, keys, 16), *(m() for m in more))


def _keys_of_rows() -> Tensor:
    mask = torch.rand(2, 1, 12, 12) > 0.4
    mask[0, 0, 3] = False
    return mask


# (function, operands, the band that is found)
CASES: dict[str, tuple[Callable, Callable[[], tuple[Tensor, ...]], tuple[int | None, int | None] | None]] = {
    "plain": (sdpa, _operands(), None),
    "lengths": (sdpa, _operands(6, 18), None),
    "causal": (lambda q, k, v: sdpa(q, k, v, is_causal=True), _operands(), (None, 0)),
    "causal with more keys": (lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), _operands(6, 18), (None, 0)),
    "grouped": (lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), _operands(heads=2), (None, 0)),
    "grouped by hand": (_repeated, _operands(heads=2), None),
    "one key head": (lambda q, k, v: _by_hand(q, k, v), _operands(heads=1), None),
    "bools": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), _operands(12, 12, 4, _keys_of_rows), None),
    "padding": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), _operands(12, 12, 4, lambda: torch.rand(2, 1, 1, 12) > 0.4), None),
    "bias": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), _operands(12, 12, 4, lambda: torch.randn(4, 12, 12)), None),
    "by hand": (_by_hand, _operands(), None),
    "scaled before": (lambda q, k, v: torch.softmax((q * 0.3) @ (k / 1.5).transpose(-1, -2), -1) @ v, _operands(), None),
    "window": (lambda q, k, v: _by_hand(q, k, v, _window), _operands(), (-4, 0)),
    "added": (lambda q, k, v: _by_hand(q, k, v, _added), _operands(), (None, 0)),
    "added to a bias": (lambda q, k, v, b: _by_hand(q, k, v, lambda s: _added(s + b)), _operands(12, 12, 4, lambda: torch.randn(4, 12, 12)), (None, 0)),
    "added to padding": (lambda q, k, v, b: _by_hand(q, k, v, lambda s: _added(s + b)), _operands(12, 12, 4, lambda: torch.randn(2, 1, 1, 12)), None),
    "causal and padding": (
        lambda q, k, v, m: _by_hand(q, k, v, lambda s: _causal_and_padding(s, m)), _operands(12, 12, 4, lambda: torch.rand(2, 1, 1, 12) > 0.6), None,
    ),
    "alibi": (lambda q, k, v, b: _by_hand(q, k, v, lambda s: _alibi(s, b)), _operands(12, 12, 4, lambda: torch.rand(4)), None),
    "capped": (lambda q, k, v: _by_hand(q, k, v, lambda s: 2 * torch.tanh(s / 2)), _operands(), None),
    "one query": (sdpa, _operands(1, 18), None),
    "transposed": (lambda q, k, v: sdpa(q, k, v).transpose(1, 2).flatten(2), _operands(), None),
    "of one tensor": (_packed, lambda: (torch.randn(2, 12, 192),), None),
    "sinks": (with_sinks, _operands(12, 12, 4, lambda: torch.randn(4)), (None, 0)),
    "softmax1": (softmax1, _operands(), None),
    "softmax1 by maximum": (lambda q, k, v: softmax1(q, k, v, lambda s: torch.maximum(s.amax(-1, keepdim=True), torch.zeros(()))), _operands(), None),
    "softmax1 by padding": (lambda q, k, v: torch.softmax(F.pad(_added(q @ k.transpose(-1, -2) / 4), (0, 1)), -1)[..., :-1] @ v, _operands(), (None, 0)),
    "softmax1 by powers": (lambda q, k, v: _powers(q, k, v, 1), _operands(), (None, 0)),
    "powers": (lambda q, k, v: _powers(q, k, v, 0), _operands(), (None, 0)),
    "softmax1 below the largest": (softmax1_below_the_largest, _operands(), None),
    "cache": (
        lambda q, k, v, p: sdpa(q, k, v, attn_mask=torch.arange(12) <= torch.arange(5)[:, None] + p), _operands(5, 12, 4, lambda: torch.tensor(4)), None,
    ),
    "hidden again": (
        lambda q, k, v, m: _hidden_again(q, k, v, m, -1e4), _operands(12, 12, 4, _keys_of_rows), None,
    ),
    "hidden again by infinity": (lambda q, k, v, m: _hidden_again(q, k, v, m, -torch.inf), _operands(12, 12, 4, _keys_of_rows), None),
    "causal, and hidden again": (lambda q, k, v: _hidden_again(q, k, v, torch.ones(12, 12, dtype=torch.bool).tril(), -torch.inf), _operands(), (None, 0)),
    "weighted": (lambda q, k, v, a, b: torch.softmax(q @ k.transpose(-1, -2) / 4, -1) * a * b / 0.8 @ v, _operands(
        12, 12, 4, lambda: torch.rand(2, 1, 12, 1), lambda: torch.rand(4, 12, 12)), None),
    **{name: (f, _operands(), (None, 0) if "causal" in name else None) for name, f in WEIGHTS.items() if name != "decayed"},
    "decayed": (WEIGHTS["decayed"], _operands(12, 12, 4, lambda: torch.rand(4)), (None, 0)),
    "sigmoid and padding": (lambda q, k, v, m: torch.sigmoid(q @ k.transpose(-1, -2) / 4).masked_fill(~m, 0) @ v, _operands(
        12, 12, 4, lambda: torch.rand(2, 1, 1, 12) > 0.4), None),
    "relative": (relative, _operands(12, 12, 4, lambda: torch.randn(2, 4, 12, 23)), None),
    "image": (of_images, _operands(12, 12, 4, lambda: torch.randn(2, 4, 12, 3), lambda: torch.randn(2, 4, 12, 4)), None),
    "image, of all heads": (of_images, _operands(12, 12, 4, lambda: torch.randn(2, 1, 12, 2), lambda: torch.randn(4, 12, 6)), None),
    "gated": (gated, _operands(12, 12, 4, lambda: torch.randn(2, 12, 4, 32)), (None, 0)),
    "gated, of heads": (lambda q, k, v, g: sdpa(q, k, v) * g[..., None], _operands(12, 12, 4, lambda: torch.randn(2, 4, 12)), None),
    "further": (lambda q, k, v, g: sdpa(q, k, v) * g, _operands(12, 12, 4, lambda: torch.randn(2, 4, 12, 16)), None),
}


def fused(function: Callable, args: tuple[Tensor, ...], passes: str = "inferno-fuse,fuse-attention{target=sm_90a always=1}") -> ir.Module:
    """The ``fused`` stage, with attention as one kernel wherever that can be; in the current context."""
    linalg, _ = jobs.lower_to_linalg(capture(function, args).text)
    module = ir.Module.parse(linalg)
    module.operation.attributes[EXPAND] = ir.UnitAttr.get()
    run_pipeline(module, passes)
    return module


def calls(module: ir.Module) -> list[ir.Operation]:
    """Those of attention."""
    return [c for c in walk(module.operation, "func.call") if callee(c).startswith("attention")]


def read(module: ir.Module, args: tuple[Tensor, ...]) -> tuple[AttentionKernel, list[Tensor | None]]:
    """What the module's one call of attention is, and its kernel's arguments as far as they are the program's."""
    (call,), (main, kernels) = calls(module), main_and_kernels(module)
    given = dict(zip(main.entry_block.arguments, args))
    return parse_attention(kernels[callee(call)]), [given.get(root_of(v)) for v in call.operands]


def evaluate(a: AttentionKernel, arguments: list[Tensor | None]) -> Tensor:
    """The kernel's result by its description, with float64 throughout."""
    def at(access: Access) -> Tensor:
        tensor = arguments[access.argument]
        found = tensor.as_strided([n if s else 1 for n, s in zip(a.sizes, access.strides)], access.strides, access.offset)
        return found.double() if found.is_floating_point() else found

    def operand(o) -> Tensor:
        return at(o.access) if o.prologue is None else _apply(o.prologue, [None if s is None else at(s) for s in o.prologue.sources], a.sizes)[0]

    def mapped(map_: Map, value: Tensor) -> list[Tensor]:
        return _apply(map_, [value if i in map_.accumulators else None if s is None else at(s) for i, s in enumerate(map_.sources)], a.sizes)

    scores = (operand(a.q) * operand(a.k)).sum(a.depth.dims, keepdim=True) * a.scale
    if a.score is not None:
        scores = mapped(a.score, scores)[0]
    if a.band is not None:
        i, j = _number(a.queries, a.sizes), _number(a.keys, a.sizes)
        seen = torch.ones((), dtype=torch.bool)
        seen = seen & (j >= i + a.band.low) if a.band.low is not None else seen
        seen = seen & (j <= i + a.band.high) if a.band.high is not None else seen
        scores = torch.where(seen, scores, -torch.inf if a.softmax else 0.0)
    weights = _softmax(a, scores, at) if a.softmax else scores
    if a.divisor is not None:
        total = (weights.abs() if a.divisor.absolute else weights).sum(a.keys.dims, keepdim=True)
        weights = weights / (total if a.divisor.made is None else mapped(a.divisor.made, total)[0])
    if a.weighting is not None:
        weights = mapped(a.weighting, weights)[0]
    o = (weights * operand(a.v)).sum(a.keys.dims, keepdim=True)
    (destination,) = a.destinations
    result = torch.full(destination.access.shape, torch.nan, dtype=torch.float64)
    o = o if a.epilogue is None else mapped(a.epilogue, o)[destination.source]
    sizes, strides = zip(*((n, s) for n, s in zip(a.sizes, destination.access.strides) if s))
    result.as_strided(sizes, strides, destination.access.offset).copy_(o.reshape(sizes))
    return result


def _softmax(a: AttentionKernel, scores: Tensor, at: Callable[[Access], Tensor]) -> Tensor:
    most = scores.amax(a.keys.dims, keepdim=True)
    powers = torch.exp(scores - most)
    total = powers.sum(a.keys.dims, keepdim=True)
    if a.sink is not None:
        total = total + torch.exp((a.sink if isinstance(a.sink, float) else at(a.sink)) - most)
    weights = powers / (total + a.added)
    return torch.where(most == -torch.inf, 0.0, weights) if a.safe else weights


def _number(group: Group, sizes: tuple[int, ...]) -> Tensor:
    shape = [n if d in group.dims else 1 for d, n in enumerate(sizes)]
    return torch.arange(group.size).reshape([sizes[d] for d in group.dims]).permute([sorted(group.dims).index(d) for d in group.dims]).reshape(shape)


_OPERATIONS: dict[str, Callable] = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul, "arith.divf": torch.div, "arith.negf": torch.neg,
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul, "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor, "arith.select": torch.where, "arith.extf": lambda x: x, "arith.truncf": lambda x: x,
    "arith.index_cast": lambda x: x, "arith.extsi": lambda x: x, "arith.sitofp": torch.Tensor.double, "math.tanh": torch.tanh, "math.exp": torch.exp,
    "math.absi": torch.abs, "math.absf": torch.abs, "math.log": torch.log,
    "arith.maximumf": torch.maximum, "arith.uitofp": torch.Tensor.double,
}
_PREDICATES = {"eq": torch.eq, "ne": torch.ne, "slt": torch.lt, "sle": torch.le, "sgt": torch.gt, "sge": torch.ge}


def _apply(map_: Map, arguments: list[Tensor | None], sizes: tuple[int, ...]) -> list[Tensor]:
    """What an elementwise generic yields for all numbers of the loops at once."""
    known: dict[ir.Value, Tensor | None] = dict(zip(map_.block.arguments, arguments))
    for op in map_.block.operations:
        op = op.operation
        operands = [known[v] for v in op.operands]
        if op.name == "linalg.yield":
            return operands
        if op.name == "linalg.index":
            d = map_.indices[ir.IntegerAttr(op.attributes["dim"]).value]
            value = torch.arange(sizes[d]).reshape([sizes[d] if e == d else 1 for e in range(len(sizes))])
        elif op.name == "arith.constant":
            value = torch.tensor(op.attributes["value"].value, dtype=torch.float64 if isinstance(op.results[0].type, ir.FloatType) else None)
        elif op.name == "arith.cmpi":
            value = _PREDICATES[arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value).name.lower()](*operands)
        elif op.name == "arith.cmpf":  # of numbers
            value = _PREDICATES["s" + arith.CmpFPredicate(ir.IntegerAttr(op.attributes["predicate"]).value).name.lower()[1:]](*operands)
        else:
            value = _OPERATIONS[op.name](*operands)
        known[op.results[0]] = value
    raise ValueError("a body without linalg.yield")
