"""Turn ``@main`` from a program of calls on tensors into a program of launches on buffers.

Every tensor of ``@main`` is one contiguous buffer: an argument, a result (a trailing argument marked ``inferno.result``),
or a ``memref.alloc`` that ``plan-memory`` places.  Launchers are inlined; a reshape only changes a buffer's type.
"""

import math

from inferno.codegen.launcher import buffer_type, integer
from inferno.errors import PassError
from inferno.mlir import func, ir, memref, walk

_VIEWS = {"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"}


def plan_launches(module: ir.Module) -> None:
    """Rewrite ``@main``; its results are described by ``inferno.results``, one dictionary for each."""
    main = next((o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main"), None)
    if main is None:
        raise PassError("plan-launches: the module has no @main")
    launchers = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value != "main"}
    _Planner(main, launchers).run()
    for launcher in launchers.values():
        launcher.operation.erase()


class _Planner:
    def __init__(self, main: func.FuncOp, launchers: dict[str, func.FuncOp]) -> None:
        self._main = main
        self._launchers = launchers
        self._buffers: dict[ir.Value, ir.Value] = {}  # a tensor of the old @main -> the buffer that holds it, of any shape
        self._results: dict[ir.Value, int] = {}  # a tensor.empty that is a result -> the result's number

    def run(self) -> None:
        old = self._main.regions[0].blocks[0]
        inputs = [buffer_type(a.type) for a in old.arguments]
        returned = list(old.operations[len(old.operations) - 1].operands)
        descriptions, fresh = self._describe_results(returned, list(old.arguments))
        types = [*inputs, *(buffer_type(returned[i].type) for i in fresh)]
        with ir.InsertionPoint(self._main.operation), self._main.location:
            new = func.FuncOp("main__plan", (types, []))
        block = new.add_entry_block()
        self._buffers.update(zip(old.arguments, block.arguments))
        for position, i in enumerate(fresh):
            self._buffers[self._root(returned[i])] = block.arguments[len(inputs) + position]
        with ir.InsertionPoint(block), self._main.location:
            for op in old.operations:
                self._plan(op.operation)
            func.ReturnOp([])
        self._finish(new, len(inputs), fresh, descriptions)

    def _describe_results(self, returned: list[ir.Value], arguments: list[ir.Value]) -> tuple[list[ir.DictAttr], list[int]]:
        """For each result where it is: a fresh buffer, an argument, or an earlier result's; and the numbers of the fresh ones."""
        descriptions, fresh, seen = [], [], {}
        for i, value in enumerate(returned):
            root = self._root(value)
            if root in arguments:
                entry = {"argument": integer(arguments.index(root))}
            elif root in seen:
                entry = {"result": integer(seen[root])}
            else:
                seen[root] = i
                fresh.append(i)
                entry = {"result": integer(i)}
            shape = ir.ArrayAttr.get([integer(s) for s in value.type.shape])
            descriptions.append(ir.DictAttr.get({**entry, "shape": shape, "element": ir.TypeAttr.get(value.type.element_type)}))
        return descriptions, fresh

    def _root(self, value: ir.Value) -> ir.Value:
        """The argument or ``tensor.empty`` whose memory ``value`` is in: through calls, to their destinations, and reshapes."""
        while not isinstance(value, ir.BlockArgument):
            op = value.owner.operation
            if op.name in _VIEWS:
                value = op.operands[0]
            elif op.name == "func.call":
                value = op.operands[len(op.operands) - len(op.results) + list(op.results).index(value)]
            elif op.name == "tensor.empty":
                break
            else:
                raise PassError(f"plan-launches: {op.name} in @main; only calls, reshapes and tensor.empty may be there")
        return value

    def _plan(self, op: ir.Operation) -> None:
        if op.name == "func.call":
            self._inline(op)
        elif op.name == "tensor.empty" and op.results[0] not in self._buffers and any(True for _ in op.results[0].uses):
            self._buffers[op.results[0]] = memref.AllocOp(buffer_type(op.results[0].type), [], []).memref

    def _inline(self, call: ir.Operation) -> None:
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if callee not in self._launchers:
            raise PassError(f"plan-launches: @{callee} is not defined")
        launcher = self._launchers[callee]
        body = launcher.regions[0].blocks[0]
        known = {
            argument: self._typed(self._buffers[self._root(operand)], argument.type)
            for argument, operand in zip(body.arguments, call.operands)
        }
        source = call.attributes["inferno.source"] if "inferno.source" in call.attributes else None
        for op in body.operations:
            op = op.operation
            if op.name == "func.return":
                if len(op.operands):
                    raise PassError(f"plan-launches: @{callee} returns values; generate-kernels has not run on it")
                continue
            clone = op.clone()
            for i, value in enumerate(clone.operands):
                clone.operands[i] = known.get(value, value)
            known.update(zip(op.results, clone.results))
            if source is not None and clone.name in ("inferno.launch", "inferno.library"):
                clone.attributes["inferno.source"] = source
            if clone.name == "inferno.library":  # a launch names its kernel's code, a library's function is many kernels'
                clone.attributes["inferno.kernel"] = ir.StringAttr.get(callee)

    def _typed(self, buffer: ir.Value, type_: ir.Type) -> ir.Value:
        """The buffer seen in another shape."""
        if buffer.type == type_:
            return buffer
        shape = list(ir.MemRefType(type_).shape)
        strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
        return memref.ReinterpretCastOp(type_, buffer, [], [], [], [0], shape, strides).result

    def _finish(self, new: func.FuncOp, inputs: int, fresh: list[int], descriptions: list[ir.DictAttr]) -> None:
        old_attributes = list(self._main.attributes["arg_attrs"]) if "arg_attrs" in self._main.attributes else [ir.DictAttr.get({})] * inputs
        marks = [ir.DictAttr.get({"inferno.result": integer(i)}) for i in fresh]
        self._main.operation.erase()
        if inputs + len(fresh):
            new.attributes["arg_attrs"] = ir.ArrayAttr.get([*old_attributes, *marks])
        new.attributes["sym_name"] = ir.StringAttr.get("main")
        new.attributes["inferno.results"] = ir.ArrayAttr.get(descriptions)
        for launch in walk(new.operation, "memref.dealloc"):
            launch.erase()
