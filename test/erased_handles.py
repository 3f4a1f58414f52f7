"""Reads of operations that were erased, as errors.

``op.erase()`` frees an operation and tells the wrapper that it was called on.  Other wrappers of it, of what is inside it and of its results
go on, and read freed memory: mostly what was there before, so that no test fails, now and then what ends the process.  Within
``erased_kept`` an erased operation is kept instead, out of its block, and reading it, or a value that it defines, raises a StaleError.
What upstream's passes and rewrites erase is not known.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from inferno.mlir import ir

_BASE = next(c for c in ir.Operation.__mro__ if "erase" in vars(c))


class StaleError(AssertionError):
    """An operation is read that was erased."""


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _address(op: ir.OpView | ir.Operation) -> int:
    """Where an operation is.  (Its hash says so, too, and is among what is checked.)"""
    return _pointer(op._CAPIPtr, b"torch_mlir.ir.Operation._CAPIPtr")


class _Erased:
    """The operations that were erased, and what is inside them, by their addresses."""

    def __init__(self) -> None:
        self.active = True
        self.kept: list[ir.Operation] = []
        self.instead: list[ir.Operation] = []  # what erased operations use in the place of what is left
        self.names: dict[int, str] = {}
        self.owners = {c: vars(c)["owner"].fget for c in (ir.Value, ir.OpResult, ir.BlockArgument, ir.Block)}

    def add(self, op: ir.OpView | ir.Operation) -> None:
        op = op.operation
        every: list[ir.Operation] = []
        op.walk(lambda o: (every.append(o), ir.WalkResult.ADVANCE)[1])
        made: dict[ir.Type, ir.Value] = {}
        with ir.Location.unknown(op.context):
            for o in every:
                for n, value in enumerate(o.operands):
                    if value.type not in made:
                        cast = ir.Operation.create("builtin.unrealized_conversion_cast", [value.type], ip=False)
                        self.instead.append(cast)
                        made[value.type] = cast.results[0]
                    o.operands[n] = made[value.type]
        if op.attached:
            op.detach_from_parent()
        self.kept.append(op)
        self.names |= {_address(o): o.name for o in every}

    def check(self, op: ir.OpView | ir.Operation) -> None:
        name = self.names.get(_address(op))
        if name is not None:
            raise StaleError(f"{name} is read, which was erased")

    def check_value(self, value: ir.Value) -> None:
        value = value.maybe_downcast()
        if isinstance(value, ir.BlockArgument):
            self.check_block(self.owners[ir.BlockArgument](value))
        else:
            self.check(self.owners[ir.OpResult](value))

    def check_block(self, block: ir.Block) -> None:
        self.check(self.owners[ir.Block](block))


_READ = {
    _BASE: ("attributes", "context", "name", "operands", "op_operands", "regions", "results", "result", "location", "parent", "attached"),
    ir.Operation: ("operation", "opview", "block", "successors"),
    ir.OpView: ("operation", "opview", "successors"),
    ir.Value: ("context", "owner", "uses", "type", "location"),
    ir.OpResult: ("owner", "result_number"),
    ir.BlockArgument: ("owner", "arg_number"),
    ir.Block: ("owner", "region", "arguments", "operations"),
}
_CALLED = {
    _BASE: ("__hash__", "__str__", "print", "get_asm", "verify", "move_after", "move_before", "is_before_in_block", "clone", "detach_from_parent", "walk"),
    ir.Operation: ("replace_uses_of_with",),
    ir.OpView: ("__str__",),
    ir.OpResult: ("__str__",),
    ir.BlockArgument: ("__str__", "set_type", "set_location"),
    ir.Value: ("__str__", "set_type", "get_name", "replace_all_uses_with", "replace_all_uses_except"),
    ir.Block: ("add_argument", "erase_argument", "append", "__iter__", "__str__"),
    ir.OpOperandList: ("__setitem__",),
}


def _checks(erased: _Erased, thing) -> None:
    if isinstance(thing, ir.Value):
        erased.check_value(thing)
    elif isinstance(thing, ir.Operation | ir.OpView):
        erased.check(thing)
    elif isinstance(thing, ir.Block):
        erased.check_block(thing)


@contextmanager
def erased_kept() -> Iterator[None]:
    """Raise a StaleError where what was erased meanwhile is read."""
    erased, before = _Erased(), {}

    def put(cls: type, name: str, new: object) -> None:
        before[cls, name] = vars(cls)[name]
        setattr(cls, name, new)

    # While an operation is put aside it may be read.

    def reader(read):
        def get(self):
            if erased.active:
                _checks(erased, self)
            return read(self)

        return property(get)

    def caller(call):
        def called(self, *args, **kwargs):
            if erased.active:
                for thing in (self, *args):
                    _checks(erased, thing)
            return call(self, *args, **kwargs)

        return called

    def erase(op):
        if not erased.active:
            return plain(op)
        erased.check(op)
        if any(next(iter(r.uses), None) is not None for r in op.operation.results):
            return plain(op)  # which refuses it
        erased.active = False
        try:
            erased.add(op)
        finally:
            erased.active = True

    plain = _BASE.erase
    put(_BASE, "erase", erase)
    for cls, names in _READ.items():
        for name in names:
            old = vars(cls)[name]
            put(cls, name, reader(old.fget))
            if old.fset is not None:
                setattr(cls, name, vars(cls)[name].setter(old.fset))
    for cls, names in _CALLED.items():
        for name in names:
            put(cls, name, caller(vars(cls)[name]))
    try:
        yield
    finally:
        for (cls, name), old in before.items():
            setattr(cls, name, old)
        for op in (*erased.kept, *erased.instead):
            plain(op)
