"""Numbers that are rounded to bf16 and go on as float32: one instruction.

LLVM rounds to 16 bits and widens these again, and ptxas makes a conversion of the first, of which a multiprocessor does 16 a cycle (``F2F``), and a shift of
the second.  Two numbers that are packed into a word are another instruction (``F2FP``), which other units have: with a zero in the lower half that word is
the rounded number as float32.
"""

import re
from collections import Counter

_ROUNDED = re.compile(r"cvt\.rn\.bf16\.f32 \t(%rs\d+), (%r\d+);")
_WIDENED = re.compile(r"cvt\.f32\.bf16 \t(%r\d+), (%rs\d+);")
_REGISTER = re.compile(r"%rs\d+")
_BODY = re.compile(r"^\{$(.*?)^\}$", re.MULTILINE | re.DOTALL)


def round_in_words(ptx: str) -> str:
    """``ptx`` with such instructions for what LLVM rounded, and only widens again."""
    return _BODY.sub(lambda body: "{" + _rounded(body[1]) + "}", ptx) if "cvt.rn.bf16.f32" in ptx else ptx


def _rounded(body: str) -> str:
    """Of a function's body: of registers that nothing else names."""
    named = Counter(_REGISTER.findall(body))
    made, widened = Counter(m[1] for m in _ROUNDED.finditer(body)), Counter(m[2] for m in _WIDENED.finditer(body))
    words = {r: f"%word{i}" for i, r in enumerate(r for r in made if made[r] == 1 and widened[r] == named[r] - 1)}
    if not words:
        return body
    body = _ROUNDED.sub(lambda m: f"cvt.rn.bf16x2.f32 \t{words[m[1]]}, {m[2]}, 0f00000000;" if m[1] in words else m[0], body)
    body = _WIDENED.sub(lambda m: f"mov.b32 \t{m[1]}, {words[m[2]]};" if m[2] in words else m[0], body)
    return f"\n\t.reg .b32 \t%word<{len(words)}>;{body}"
