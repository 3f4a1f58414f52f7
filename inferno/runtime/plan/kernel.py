"""What compiling makes, as data.  Needs neither MLIR nor LLVM: it also comes from the cache or a package."""

from dataclasses import dataclass, field

from inferno.targets.resources import Resources


@dataclass(frozen=True)
class PassRecord:
    """One pass as it ran: its text, its time and, when it was asked for, the module after it."""

    name: str
    seconds: float
    after: str | None


@dataclass(frozen=True)
class Kernel:
    """One kernel, compiled: ``module`` holds its launcher and its code, which is called ``code`` there and in the plan;
    ``resources`` are by entry point; ``note`` says why another generator than the one it was scheduled for made it, and it is
    ``lasting`` unless the reason was a passing one."""

    name: str
    module: str
    code: str = ""
    llvm: str = ""
    ptx: str = ""
    cubin: bytes | None = None
    resources: dict[str, Resources] = field(default_factory=dict)
    seconds: float = 0.0
    schedule: str = ""
    flops: int = 0
    bytes: int = 0
    note: str = ""
    lasting: bool = True
