"""Python programs that tests run in a process of their own."""

import subprocess
import sys

_BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch_mlir", "llvmlite"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Blocker())
"""


def without_a_compiler(code: str, *arguments: str) -> str:
    """What ``code`` prints where neither torch-mlir nor llvmlite is installed; it must end well."""
    return of_its_own(_BLOCKER + code, *arguments)


def of_its_own(code: str, *arguments: str) -> str:
    """What ``code`` prints as the first that a process does; it must end well."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
