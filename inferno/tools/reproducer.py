"""A kernel as two files: its IR, which `inferno run`, `inferno compile` and inferno-opt take, and the PyTorch program that it
implements, which runs and compares the two."""

import re
from pathlib import Path

from inferno.runtime.workers.pool import pool

_CHECK = '''

def inputs(seed: int = 0) -> list[Tensor]:
    """Random arguments of main; integers are small, for they may be indices."""
    from inferno.tools.ir_program import random_inputs

    return random_inputs([{types}], seed, device)


def check() -> bool:
    """Compile the IR beside this file, and hold its results against main's and against main's in float64."""
    from inferno.runtime.check.comparison import compare
    from inferno.tools.ir_program import IrProgram

    given = inputs()
    ours = IrProgram.read(Path(__file__).with_suffix(".mlir"), device=device)(*given)
    with torch.no_grad(), torch.device(device):
        eager = main(*given)
        narrow = {{name: globals()[name] for name in ("f32", "f16", "bf16") if name in globals()}}
        globals().update(dict.fromkeys(narrow, torch.float64))
        exact = main(*(t.double() if t.is_floating_point() else t for t in given))
        globals().update(narrow)
    found = compare(ours, eager, exact)
    print(found)
    return found.right


if __name__ == "__main__":
    sys.exit(not check())
'''


def write_reproducer(text: str, kernel: str, source: tuple[str, ...], folder: Path) -> tuple[Path, Path]:
    """Write ``<kernel>.mlir`` and ``<kernel>.py`` to ``folder``; ``text`` is the kernel as a program of its own at the ``scheduled``
    stage (see ``inferno.runtime.check.calls``), ``source`` the operations of the model that it was made of.  The files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]", "_", kernel)
    ir, python = folder / f"{stem}.mlir", folder / f"{stem}.py"
    fused, program, types = pool().run(f"writing @{kernel}", "as_reproducer", text=text)
    made_of = f" Made of {', '.join(source)}." if source else ""
    ir.write_text(f"// @{kernel}.{made_of}\n// inferno run {ir.name}    inferno compile {ir.name} --ir ptx    inferno-opt {ir.name} -p canonicalize\n{fused}")
    imports = "import sys\nfrom pathlib import Path\n\nimport torch\nfrom torch import Tensor\n\ndevice = \"cuda\" if torch.cuda.is_available() else \"cpu\"\n"
    body = program.text.replace("import torch\nfrom torch import Tensor\n", imports, 1)
    incomplete = "".join(f"\n\n@{name} has no PyTorch form: {reason}" for name, reason in program.missing.items())
    head = f'"""What the kernel @{kernel} computes, in PyTorch.{made_of}{incomplete}\n\nRun it to compare {ir.name}, beside this file, with it.\n"""\n\n'
    written = ", ".join(f"({shape!r}, {element!r})" for shape, element in types)
    python.write_text(head + body.rstrip("\n") + "\n" + _CHECK.format(types=written))
    return ir, python
