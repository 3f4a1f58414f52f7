"""The Python function that runs a region: segments, eager operations and views in order, as text that can be read."""

import operator
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from inferno.capture.assertions import ASSERTIONS, asserted
from inferno.capture.input_parts import whole_of
from inferno.capture.orders import dense_order, permuted_order
from inferno.capture.partition import Part, base_of, is_free, is_view
from inferno.runtime.call.finish import write_values
from inferno.runtime.region.collectives import synchronous
from inferno.runtime.region.segment import Segment
from inferno.runtime.region.sized_segment import SizedSegment

_LITERALS = (bool, int, str, type(None))


def write_region(
    graph: Graph, steps: Sequence[tuple[Part, Segment | SizedSegment] | tuple[Node, ...]], refused: Mapping[Node, str],
    attributes: Callable[[str], Any] | None, written: Sequence[str] = (),
) -> tuple[Callable[[list[Any]], list[Any]], str, tuple[int, ...]]:
    """The function ``region(inputs)``, which empties its list and returns the list of the graph's results; its text; and the lines,
    counted from 0, where the text begins with each segment and each eager operation, in order, and where it is done with them.  The last results are
    written to the inputs ``written`` where no segment has done so, and not returned."""
    writer = _Writer(refused, attributes)
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    for step in steps:
        if isinstance(step[0], Node):
            for node in step:
                writer.eager(node)
        else:
            writer.segment(*step)
    results = graph.output_node().args[0]
    count, targets = len(results) - len(written), {n.name: n for n in inputs}
    writer.write([targets[name] for name in written], results[count:])
    return writer.function([writer.name(n) for n in inputs], results[:count])


@dataclass
class _Line:
    text: str
    uses: set[str]
    step: int


@dataclass
class _Writer:
    refused: Mapping[Node, str]
    attributes: Callable[[str], Any] | None
    lines: list[_Line] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    made: set[Node] = field(default_factory=set)  # what has a variable by now
    segments: int = 0
    fresh: set[Node] = field(default_factory=set)  # what a segment made: its strides are the example's
    placed: set[Node] = field(default_factory=set)  # what a segment made in the place of an input
    step: int = -1

    def name(self, node: Node) -> str:
        if node not in self.names:
            self.names[node] = f"{node.name}_" if node.name in self.scope or node.name in ("inputs", "region") else node.name
            self.made.update([node] if node.op == "placeholder" else [])
        return self.names[node]

    def segment(self, part: Part, segment: Segment | SizedSegment) -> None:
        self.step += 1
        name = self._global(f"segment_{self.segments}", segment.call)
        self.segments += 1
        arguments = []
        for value, whole in zip(part.inputs, part.wholes):
            text = self._value(value)
            example = value.meta["val"]
            if isinstance(example, torch.Tensor) and example.device.type == "cpu" and segment.device.type != "cpu":
                text = f"{text}.to({self._global('device', segment.device)})"
            elif whole is not None:
                text = f"{self._global('whole', whole_of(*whole))}({text})"
            elif isinstance(example, torch.Tensor) and dense_order(example) is None:
                text = f"{text}.contiguous()"
            if isinstance(example, torch.Tensor) and (example.is_complex() or example.is_neg()):  # memory may hold the conjugate, or what is to be negated
                text = f"{text}.resolve_conj().resolve_neg()"
            arguments.append(text)
        results = [self.name(n) for i, n in enumerate(part.outputs) if i not in segment.written]
        given, reads = ", ".join(arguments), {self.name(n) for n in part.inputs if n.op != "get_attr"}
        if segment.takes:  # the list alone holds what nobody else needs
            taken = f"taken_{self.segments}"
            self.lines.append(_Line(f"{taken} = [{given}]", reads, self.step))
            given, reads = taken, {taken}
        made = f"{', '.join(results)}{',' if len(results) == 1 else ''} = " if results else ""
        self.lines.append(_Line(f"{made}{name}({given})", reads, self.step))
        for i, to in segment.written.items():
            self.names[part.outputs[i]] = self.name(part.inputs[to])
        self.placed.update(part.outputs[i] for i in segment.written)
        self.made.update(part.outputs)
        self.fresh.update(n for n in part.outputs if n not in self.placed)

    def eager(self, node: Node) -> None:
        self.step += 1
        for value in node.all_input_nodes:
            self._value(value)
        arguments = [self._text(a) for a in node.args] + [f"{k}={self._text(v)}" for k, v in node.kwargs.items()]
        if node.op == "call_method":
            self._line(f"{self.name(node)} = {arguments[0]}.{node.target}({', '.join(arguments[1:])})", node.all_input_nodes)
        else:
            target = self.attributes(node.target) if node.op == "call_module" else _instead(node) or node.target
            function = self._global(_identifier(node.target if node.op == "call_module" else target), target)
            self._line(f"{self.name(node)} = {function}({', '.join(arguments)})", node.all_input_nodes)
        self.made.add(node)
        for user in node.users:  # its elements at once, so that each can go when it is no longer needed
            if user.target is operator.getitem and user.users and is_free(user, self.refused):
                self._value(user)

    def write(self, targets: Sequence[Node], values: Sequence[Node]) -> None:
        """Give inputs the values that no segment has made there; what is another input, which may be written as well, by way of a copy."""
        pairs = [(t, v) for t, v in zip(targets, values) if v not in self.placed]
        if pairs:
            copies = [f"{self._value(v)}{'.clone()' if base_of(v, self.refused).op == 'placeholder' else ''}" for _, v in pairs]
            write = self._global("write_values", write_values)
            self._line(f"{write}([{', '.join(self.name(t) for t, _ in pairs)}], [{', '.join(copies)}])", [n for pair in pairs for n in pair])

    def function(self, inputs: list[str], results: Any) -> tuple[Callable, str, tuple[int, ...]]:
        """The text as a function; each variable is dropped after the last line that uses it."""
        self.step += 1
        for value in results:
            if isinstance(value, Node):
                self._value(value)
        self._own(results)
        returned = {self.name(v) for v in results if isinstance(v, Node)}
        last: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            last.update(dict.fromkeys(line.uses, i))
        text = ["def region(inputs):"]
        if inputs:
            text.append(f"    {', '.join(inputs)}{',' if len(inputs) == 1 else ''} = inputs")
        text.append("    inputs.clear()")
        dead = {name: i for name, i in last.items() if name not in returned and name not in self.scope}
        starts: dict[int, int] = {}
        for i, line in enumerate(self.lines):
            starts.setdefault(line.step, len(text))
            text.append(f"    {line.text}")
            drop = sorted(name for name, at in dead.items() if at == i)
            if drop:
                text.append(f"    del {', '.join(drop)}")
        starts.setdefault(self.step, len(text))
        text.append(f"    return [{', '.join(self._text(v) for v in results)}]")
        written = "\n".join(text) + "\n"
        scope = dict(self.scope)
        exec(compile(written, "<inferno region>", "exec"), scope)
        return scope["region"], written, tuple(starts[i] for i in range(self.step + 1))

    def _own(self, results: Any) -> None:
        """Results that are views of memory which no other result shares are tensors of their own: autograd refuses writes to a view that was made where
        no gradients are computed, and in eager most of them are none.  Those that share memory have to count writes together."""
        nodes = dict.fromkeys(v for v in results if isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor))
        bases = {node: base_of(node, self.refused) for node in nodes}
        shared = Counter(bases.values())
        for node, base in bases.items():
            alone = shared[base] == 1 and base not in self.placed
            viewed = permuted_order(node.meta["val"]) is not None if base in self.fresh and node is base else node is not base and _has_memory(base)
            if alone and viewed:
                self._line(f"{self.name(node)} = {self.name(node)}.data", [node])

    def _value(self, node: Node) -> str:
        """The variable of a value; what is free is made here."""
        if node.op == "get_attr":
            return self._global(f"attribute_{_identifier(node.target)}", self.attributes(node.target))
        name = self.name(node)
        if node in self.made:
            return name
        base = base_of(node, self.refused)
        if node is not base and self._is_fresh(base) and isinstance(node.meta.get("val"), torch.Tensor):
            value, source = node.meta["val"], base.meta["val"]
            numbers = (*value.shape, *value.stride(), value.storage_offset(), source.storage_offset())
            same = value.is_conj() == source.is_conj() and value.is_neg() == source.is_neg()  # which strides do not say
            if same and value.dtype == source.dtype and all(type(n) is int for n in numbers):
                offset = value.storage_offset() - source.storage_offset()
                self._line(
                    f"{name} = {self._value(base)}.as_strided({tuple(value.shape)}, {tuple(value.stride())}, {offset})", [base],
                )
                self.made.add(node)
                return name
        if not is_free(node, self.refused):
            raise AssertionError(f"{node.name} is used before it is made")
        for operand in node.all_input_nodes:
            self._value(operand)
        if node.target is operator.getitem:
            self._line(f"{name} = {self._text(node.args[0])}[{node.args[1]!r}]", node.all_input_nodes)
        else:
            arguments = [self._text(a) for a in node.args] + [f"{k}={self._text(v)}" for k, v in node.kwargs.items()]
            self._line(f"{name} = {self._global(_identifier(node.target), node.target)}({', '.join(arguments)})", node.all_input_nodes)
        self.made.add(node)
        return name

    def _is_fresh(self, node: Node) -> bool:
        return node in self.fresh

    def _text(self, value: Any) -> str:
        """An argument as Python text; objects that have none become names of the scope."""
        if isinstance(value, Node):
            return self._value(value)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple, torch.fx.immutable_collections.immutable_list):
            inner = ", ".join(self._text(v) for v in value)
            return f"({inner}{',' if len(value) == 1 else ''})" if isinstance(value, tuple) else f"[{inner}]"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if isinstance(value, _LITERALS) and type(value) in _LITERALS:
            return repr(value)
        return self._global(_identifier(type(value).__name__), value)

    def _global(self, hint: str, value: Any) -> str:
        name, number = hint, 0
        while (name in self.scope and self.scope[name] is not value) or name in self.names.values():
            number += 1
            name = f"{hint}_{number}"
        self.scope[name] = value
        return name

    def _line(self, text: str, reads: Sequence[Node]) -> None:
        self.lines.append(_Line(text, {self.name(n) for n in reads if n.op != "get_attr"}, self.step))


def _has_memory(node: Node) -> bool:
    """Whether an operation makes new memory, rather than a view of what there is."""
    source = node.args[0] if node.target is operator.getitem else node
    return source.op == "call_function" and not is_view(source)


def _instead(node: Node) -> Callable | None:
    """The function to call in the place of an operation in eager, if not itself."""
    return asserted if node.target in ASSERTIONS else synchronous(node)


def _identifier(value: Any) -> str:
    value = getattr(value, "__name__", value) if isinstance(value, (types.BuiltinFunctionType, types.FunctionType)) else value
    text = "".join(c if c.isalnum() else "_" for c in str(value))
    return text if not text[:1].isdigit() else f"_{text}"
