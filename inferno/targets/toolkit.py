"""Where the parts of a CUDA toolkit are: the wheels of NVIDIA's (``nvidia-cuda-nvcc``, ``nvidia-nvvm``), else CUDA_HOME,
else the usual folder."""

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path


@cache
def find_file(relative: str) -> str | None:
    """The file called ``relative`` below a toolkit's root, such as ``nvvm/libdevice/libdevice.10.bc``; None if there is none."""
    for root in _roots():
        if (path := root / relative).is_file():
            return str(path)
    return None


@cache
def find_tool(name: str) -> str | None:
    """The path of the program ``name`` (ptxas, nvdisasm): from PATH first, whose toolkit fits the driver, then from the wheels."""
    return shutil.which(name) or find_file(f"bin/{name}")


def _roots() -> list[Path]:
    roots = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        roots += sorted(p for p in Path(folder).iterdir() if p.name.startswith(("cu", "nvvm")))
    roots += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [*roots, Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
