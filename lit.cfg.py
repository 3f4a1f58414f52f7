"""How `lit test` runs the tests of the passes: every test/**/*.mlir, through lit's own shell, in forks of one process."""

import os
import sys
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parent
beside = Path(sys.executable).parent  # where this environment keeps its programs

config.name = "inferno"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = {".mlir"}
config.excludes = ["Inputs", ".venv", "build", "inferno"]
config.test_source_root = str(root)
config.test_exec_root = str(root / "build" / "lit")
config.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
config.environment["OMP_NUM_THREADS"] = "1"
config.environment["INFERNO_CACHE"] = "0"  # a test compiles what it tests

sys.path[:0] = [str(root), str(root / "test")]
import lit_server  # noqa: E402

from inferno.targets.toolkit import find_tool  # noqa: E402

served = f"{sys.executable} -I -S {root / 'test' / 'lit_client.py'} {lit_server.start(config.environment['PYTHONPATH'])}"
config.substitutions += [
    ("%python", sys.executable),
    (r"(?<![\w./-])inferno-opt(?![\w./-])", f"{served} inferno-opt"),
    (r"(?<![\w./-])FileCheck(?![\w./-])", os.environ.get("FILECHECK", f"{served} FileCheck")),
]

if find_tool("ptxas"):
    config.available_features.add("ptxas")
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("nvidia")
