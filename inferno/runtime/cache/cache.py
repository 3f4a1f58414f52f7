"""The cache on disk: compiled kernels and whole programs, by what they were made of.

A kernel's key is the text of its scheduled function, which carries no locations, but its schedule and numeric options, with
the target and the versions of all that compiles.  A program's key is the text of its ``torch`` stage, where locations are
(they are what ``explain()`` prints, so a program that moved in its file is another program, of the same kernels), with the
target, the numeric options and the versions.  A capture's key is that of the graph before decomposition
(``capture.graph_key``): it leads to the program's key without decomposing.

What is kept is data: JSON, text and machine code.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from inferno.errors import CompileError, InfernoError, NoLowering, PassError, PlanError, UnsupportedOperation
from inferno.runtime.database import answers
from inferno.runtime.garbage import collection_paused
from inferno.runtime.plan.kernel import Kernel, PassRecord
from inferno.runtime.program import Program
from inferno.runtime.plan.data import plan_from_dict, preparation_from_data
from inferno.runtime.plain_data import to_data
from inferno.runtime.cache.store import Store
from inferno.runtime.cache.versions import versions
from inferno.settings import settings
from inferno.target import Target
from inferno.targets.resources import Resources

KERNEL, PROGRAM, CAPTURE = "kernel", "program", "capture"


def make_key(*parts: str) -> str:
    """The key of these texts, in this order: forty hexadecimal digits."""
    found = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        found.update(f"{len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def kernel_key(text: str, target: Target) -> str:
    """The key of a scheduled kernel's module."""
    return make_key(KERNEL, text, repr(target), versions())


def program_key(torch_stage: str, target: Target, options: Mapping[str, Any]) -> str:
    """The key of a program by the text of its ``torch`` stage; ``options`` are those that change what is compiled."""
    return make_key(PROGRAM, make_key(torch_stage), repr(target), json.dumps(dict(options), sort_keys=True), versions())


def open_cache() -> "Cache | None":
    """The cache as the settings have it; None where it is off."""
    found = settings()
    return _cache(found.cache_dir, found.cache_bytes) if found.cache and found.cache_bytes else None


@cache
def _cache(folder: Any, limit: int) -> "Cache":
    return Cache(Store(folder, limit))


class Cache:
    """Kernels, programs and captures in a store.  Nothing here raises for what is on disk: it is missing then."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def load_kernel(self, key: str) -> Kernel | None:
        found = self.store.read(KERNEL, key)
        if found is None:
            return None
        with self._discarding(KERNEL, key):
            return _read_kernel(found[0]["kernel"], found[1], "")
        return None

    def save_kernel(self, key: str, kernel: Kernel, target: Target) -> None:
        facts, parts = _write_kernel(kernel, "")
        self.store.write(KERNEL, key, {"name": kernel.name, "target": target.name, "made": time.time(), "kernel": facts}, parts)

    def load_program(self, key: str, target: Target) -> Program | None:
        """The program, without its signature; where it failed to compile, the error is raised.  None also where other schedules are known to
        be best by now than when it was compiled."""
        found = self.store.read(PROGRAM, key)
        if found is None:
            return None
        if "failed" in found[0]:
            raise _read_failure(found[0])
        with self._discarding(PROGRAM, key), collection_paused():
            program = _read_program(*found, target)
            return program if answers(program.known, target) == program.known else None
        return None

    def save_program(self, key: str, program: Program) -> None:
        """Keep a program, but for its signature and what its passes printed."""
        header, parts = _write_program(program)
        self.store.write(PROGRAM, key, {"target": program.target.name, "made": time.time(), **header}, parts)

    def save_failure(self, key: str, error: InfernoError, target: Target) -> None:
        """Keep why a program does not compile, if it is sure to fail again."""
        cause: BaseException | None = error
        while isinstance(cause, InfernoError):
            if not cause.lasting:
                return
            cause = cause.__cause__
        header = {"name": type(error).__name__, "target": target.name, "made": time.time(), "failed": str(error)}
        self.store.write(PROGRAM, key, header, {})

    def load_facts(self, kind: str, key: str) -> dict[str, Any] | None:
        """Plain data that was kept by ``save_facts``."""
        found = self.store.read(kind, key)
        if found is None:
            return None
        with self._discarding(kind, key):
            return json.loads(found[1]["facts"])
        return None

    def save_facts(self, kind: str, key: str, facts: dict[str, Any], target: Target) -> None:
        self.store.write(kind, key, {"target": target.name, "made": time.time()}, {"facts": json.dumps(facts).encode()})

    def lock(self, key: str) -> contextlib.AbstractContextManager[bool]:
        """As ``Store.lock``."""
        return self.store.lock(key)

    @contextlib.contextmanager
    def _discarding(self, kind: str, key: str) -> Iterator[None]:
        """An entry whose checksum holds but which is not what it should be: somebody else's writing."""
        try:
            yield
        except (PlanError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.store.discard(kind, key, f"{type(error).__name__}: {error}")


def _read_failure(header: dict[str, Any]) -> InfernoError:
    known = {c.__name__: c for c in (CompileError, NoLowering, PassError, UnsupportedOperation)}
    return known.get(header.get("name"), CompileError)(header["failed"])


_TEXTS = ("module", "llvm", "ptx")


def _write_kernel(kernel: Kernel, prefix: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A kernel as plain data and parts, whose names begin with ``prefix``."""
    parts = {prefix + name: getattr(kernel, name).encode() for name in _TEXTS if getattr(kernel, name)}
    if kernel.cubin is not None:
        parts[f"{prefix}cubin"] = kernel.cubin
    facts = {k: v for k, v in vars(kernel).items() if k not in (*_TEXTS, "cubin", "resources")}
    return {**facts, "resources": {name: asdict(r) for name, r in kernel.resources.items()}}, parts


def _read_kernel(facts: dict[str, Any], parts: dict[str, bytes], prefix: str) -> Kernel:
    texts = {name: parts[prefix + name].decode() for name in _TEXTS if prefix + name in parts}
    resources = {name: Resources(**r) for name, r in facts["resources"].items()}
    return Kernel(**{**facts, **{"module": ""}, **texts, "resources": resources, "cubin": parts.get(f"{prefix}cubin")})


def _write_program(program: Program) -> tuple[dict[str, Any], dict[str, bytes]]:
    parts = {f"stage {name}": text.encode() for name, text in program.stages.items()}
    kernels = []
    for i, kernel in enumerate(program.kernels.values()):
        facts, found = _write_kernel(kernel, f"{i} ")
        kernels.append(facts)
        parts.update(found)
    for i, (_, _, data) in enumerate(program.constants):
        parts[f"constant {i}"] = data
    facts = {
        "stages": list(program.stages), "kernels": kernels, "constants": [[element, list(shape)] for element, shape, _ in program.constants],
        "known": dict(program.known),
        "passes": [[p.name, p.seconds] for p in program.passes], "plan": program.plan.as_dict() if program.plan else None,
        "preparation": to_data(program.preparation) if program.preparation else None,
    }
    parts["facts"] = json.dumps(facts, separators=(",", ":")).encode()
    return {"name": f"{len(kernels)} kernels"}, parts


def _read_program(header: dict[str, Any], parts: dict[str, bytes], target: Target) -> Program:
    if header["target"] != target.name:
        raise ValueError(f"it is for target {header['target']}")
    facts = json.loads(parts["facts"])
    kernels = [_read_kernel(k, parts, f"{i} ") for i, k in enumerate(facts["kernels"])]
    return Program(
        signature=None, target=target, stages={name: parts[f"stage {name}"].decode() for name in facts["stages"]},
        kernels={k.name: k for k in kernels},
        constants=[(element, tuple(shape), parts[f"constant {i}"]) for i, (element, shape) in enumerate(facts["constants"])],
        passes=[PassRecord(name, seconds, None) for name, seconds in facts["passes"]],
        plan=plan_from_dict(facts["plan"]) if facts["plan"] else None,
        preparation=preparation_from_data(facts["preparation"]) if facts["preparation"] else None, known=facts["known"],
    )


__all__ = ["CAPTURE", "KERNEL", "PROGRAM", "Cache", "kernel_key", "make_key", "open_cache", "program_key"]
