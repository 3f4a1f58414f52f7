"""Passes that rewrite ``@main`` and the kernels that it calls: their state, and what they leave behind."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferno.mlir import func, ir, is_read, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.programs import VIEWS, callee, main_and_kernels, operations_in, wants_library
from inferno.schedule.passes.merge_calls import Merges
from inferno.target import Target, find_target


@dataclass
class Rewrite(ABC):
    """The state of a pass that rewrites ``@main`` and the kernels that it calls, by name."""

    module: ir.Module
    main: func.FuncOp
    kernels: dict[str, func.FuncOp]
    target: Target

    @abstractmethod
    def run(self) -> bool:
        """Whether anything was changed."""

    @cached_property
    def merges(self) -> Merges:
        """Of these kernels."""
        return Merges(self.module, self.kernels)

    @classmethod
    def rewrite(cls, module: ir.Module, target: Target, **options: Any) -> None:
        """Run it on a module, as ``merge_in`` says, with its further fields."""
        merge_in(module, lambda main, kernels: cls(module, main, kernels, target, **options).run())

    @classmethod
    def rewrite_products(cls, module: ir.Module, target: str, always: str) -> None:
        """Run it where ``hopper_for_products`` lets it, with its field ``always`` set by a pass's option: "1" for wherever that can be."""
        machine = hopper_for_products(module, target)
        if machine is not None:
            cls.rewrite(module, machine, always=always == "1")


def merge_in(module: ir.Module, merge: Callable[[func.FuncOp, dict[str, func.FuncOp]], bool]) -> None:
    """Let ``merge`` rewrite ``@main`` and its kernels, by name, with an open context; where it says that it did, what nobody calls any more goes,
    and equal kernels become one."""
    main, kernels = main_and_kernels(module)
    if main is None:
        return
    with module.context, ir.Location.unknown():
        changed = merge(main, kernels)
    if changed:
        erase_unused(module, main)
        deduplicate_kernels(module)


def rewrite_calls(main: func.FuncOp, rewrite: Callable[[ir.Operation], bool]) -> bool:
    """Let ``rewrite`` put something in the place of ``@main``'s calls, one after the other, what it has put there too; whether it did."""
    changed, place, operations = False, 0, operations_in(main)
    while place < len(operations):
        if operations[place].name == "func.call" and rewrite(operations[place]):
            changed, operations = True, operations_in(main)  # and the next one is here
        else:
            place += 1
    return changed


def erase_unused(module: ir.Module, main: func.FuncOp) -> None:
    """Erase kernels that nobody calls any more, and what is left of their destinations."""
    called = {callee(c) for c in walk(module.operation, "func.call")}
    for op in [o for o in module.body.operations if isinstance(o, func.FuncOp) and "sym_visibility" in o.attributes]:
        if op.name.value not in called:
            op.operation.erase()
    for op in reversed(walk(main, "tensor.empty", *VIEWS)):
        if not is_read(op.results[0]):
            op.erase()


def hopper_for_products(module: ir.Module, target: str) -> Target | None:
    """The target, if it is Hopper and its own kernels may compute the module's contractions, not a library that was asked for; None otherwise."""
    machine = find_target(target)
    return machine if machine.hopper and not wants_library(module) else None
