"""The options of a compile: one frozen dataclass, the same names in ``inferno.compile``, ``torch.compile(options=...)`` and the shell."""

from dataclasses import dataclass, fields
from typing import Any

from inferno.errors import OptionError
from inferno.settings import read_bytes

STAGES = ("torch", "linalg", "fused", "scheduled", "gpu", "llvm", "ptx", "sass")  # of the IR, in order
MATMULS = ("auto", "generated", "library")
MATMUL = "inferno.matmul"  # the attribute of a module that says one of them to the passes


@dataclass(frozen=True)
class Options:
    """How to compile.

    * ``target``: the machine to compile for; by default the one that the tensors are on.
    * ``fallback``: what cannot be compiled runs as ATen calls between the compiled segments; without it, it is an UnsupportedOperation.
    * ``cuda_graphs``: a call launches the program as one CUDA graph, which is made of its plan and gets the call's addresses.
    * ``check``: the first call is compared with eager and with float64.
    * ``matmul``: what multiplies matrices: "generated", kernels of ours, or "library", cuBLASLt (on the CPU torch's own) wherever it can; "auto" takes
      what is thought, or was measured, to be faster.
    * ``freeze``: what is made of weights alone is kept from call to call, and made again when they change; True for at most twice the weights' own
      bytes, or the most bytes, a number or text such as "2G".
    * ``tune``: kernels whose best schedule is not known yet are measured with many, on the GPU that they are for.
    """

    target: str | None = None
    fallback: bool = True
    cuda_graphs: bool = False
    check: bool = False
    matmul: str = "auto"
    freeze: bool | int | str = False
    tune: bool = False

    def __post_init__(self) -> None:
        for name in ("fallback", "cuda_graphs", "check", "tune"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"option {name}: expected True or False, got {getattr(self, name)!r}")
        if self.matmul not in MATMULS:
            raise OptionError(f"option matmul: expected one of {', '.join(MATMULS)}, got {self.matmul!r}")
        given = self.freeze
        if not (read_bytes(given) is not None if isinstance(given, str) else isinstance(given, int) and given >= 0):
            raise OptionError(f"option freeze: expected True, False, a number of bytes, or a number with K, M or G such as '2G', got {given!r}")


def make_options(given: dict[str, Any]) -> Options:
    """Options from a user's names and values; OptionError lists the names that there are."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise OptionError(f"unknown option {name!r}; the options are {', '.join(known)}")
    return Options(**given)
