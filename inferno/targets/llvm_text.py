"""LLVM IR text from MLIR's LLVM (24) made readable by llvmlite's LLVM (22).

Only the spelling of floating-point literals differs: LLVM 24 prints ``f0x3EAAAAAB``, ``+inf``, ``+qnan``,
``+snan(0x1)`` and the shortest decimal that rounds to the value in its type; LLVM 22 reads none of these, but reads
every value as hexadecimal bits (a ``float`` as the bits of the equal double).  A literal's type is the last
floating-point keyword before it on its line.
"""

import re
import struct

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # strings, among them inline assembly, are left alone
    r"|[%@][-\w.$]+"
    r"|\b(?P<type>half|bfloat|float|double)\b"
    r"|(?<![\w.%@$])(?P<literal>f0x[0-9A-Fa-f]+|[+-](?:inf|qnan|nan|snan)(?:\(0x[0-9A-Fa-f]+\))?|[+-]?\d+\.\d+(?:[eE][+-]?\d+)?)"
)
# What a line with a literal holds at least: most have none, and looking at each type of a structure of 128 takes as long as LLVM does.
_PERHAPS = re.compile(r"f0x|[+-](?:inf|q?nan|snan)|\d\.\d")
_WIDTH = {"half": (16, 10), "bfloat": (16, 7), "float": (32, 23), "double": (64, 52)}  # bits in all, and of the mantissa


def downgrade(text: str) -> str:
    """``text`` with every floating-point literal in a spelling that LLVM 22 reads, bit for bit the same value."""
    return "\n".join(_downgrade_line(line) if _PERHAPS.search(line) else line for line in text.splitlines()) + "\n"


def _downgrade_line(line: str) -> str:
    current = None

    def replace(match: re.Match) -> str:
        nonlocal current
        if match["type"]:
            current = match["type"]
        elif match["literal"] and current:
            return _spell(current, _bits(current, match["literal"]))
        return match[0]

    return _TOKEN.sub(replace, line)


def _bits(type_: str, literal: str) -> int:
    width, mantissa = _WIDTH[type_]
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    sign = (1 << (width - 1)) if literal[0] == "-" else 0
    body = literal.lstrip("+-")
    exponent = ((1 << (width - 1 - mantissa)) - 1) << mantissa
    if body.startswith("inf"):
        return sign | exponent
    if "nan" in body:
        payload = re.search(r"\(0x([0-9A-Fa-f]+)\)", body)
        quiet = 0 if body.startswith("snan") else 1 << (mantissa - 1)
        return sign | exponent | quiet | (int(payload[1], 16) if payload else 0)
    value = float(literal)
    if type_ == "double":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if type_ == "half":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    single = struct.unpack("<I", struct.pack("<f", value))[0]
    if type_ == "float":
        return single
    return ((single + 0x7FFF + ((single >> 16) & 1)) >> 16) & 0xFFFF  # bfloat: round to nearest, ties to even


def _spell(type_: str, bits: int) -> str:
    if type_ == "double":
        return f"0x{bits:016X}"
    if type_ == "half":
        return f"0xH{bits:04X}"
    if type_ == "bfloat":
        return f"0xR{bits:04X}"
    sign, exponent, fraction = bits >> 31, (bits >> 23) & 255, bits & 0x7FFFFF
    if exponent == 255:  # infinities and NaN keep their payload, which a conversion through a Python float may not
        return f"0x{(sign << 63) | (0x7FF << 52) | (fraction << 29):016X}"
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
