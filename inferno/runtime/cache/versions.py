"""What a result depends on beside its input: the versions of all that compiles, as one text that goes into each cache key."""

import hashlib
import importlib.metadata
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import inferno
from inferno.targets.toolkit import find_file, find_tool

# Folders of the package that change nothing that is kept.
_APART = ("tools",)


@cache
def versions() -> str:
    """Inferno's sources, torch, torch-mlir, llvmlite, ptxas and libdevice; read once a process, in 50 ms."""
    parts = [f"inferno {_sources()}", f"python {sys.version_info[0]}.{sys.version_info[1]}"]
    parts += [f"{name} {_version(name)}" for name in ("torch", "torch-mlir", "llvmlite")]
    parts += [f"ptxas {_ptxas()}", f"libdevice {_content(find_file('nvvm/libdevice/libdevice.10.bc'))}"]
    return "; ".join(parts)


def _sources() -> str:
    """A hash of the package's files, so that a changed line of the compiler never meets an old entry."""
    root = Path(inferno.__file__).parent
    found = hashlib.blake2b(digest_size=20)
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _APART:
            data = path.read_bytes()
            found.update(f"{name.as_posix()} {len(data)}\n".encode())
            found.update(data)
    return found.hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _ptxas() -> str:
    """What the program says: its file may be a script that calls another."""
    tool = find_tool("ptxas")
    if tool is None:
        return "none"
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    return " ".join(re.findall(r"release .*|Build .*", said)) or said.strip()


def _content(path: str | None) -> str:
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=20).hexdigest() if path else "none"
