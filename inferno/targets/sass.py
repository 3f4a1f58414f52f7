"""A cubin as text."""

import subprocess
import tempfile

from inferno.errors import CompileError
from inferno.targets.toolkit import find_tool


def disassemble(cubin: bytes) -> str:
    """SASS of a cubin by nvdisasm; CompileError says how to get it where there is none."""
    tool = find_tool("nvdisasm")
    if tool is None:
        raise CompileError("nvdisasm not found; `pip install 'inferno-compiler[sass]'` or install a CUDA toolkit")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"nvdisasm failed: {done.stderr.strip()[:500]}")
    return done.stdout
