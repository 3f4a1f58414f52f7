"""The beginning of a Python function made for one program's calls: its inputs, what is read where it is held, and the checks.

The text has one condition for each argument and no loop; whatever it does not expect goes to the general way, which finds the
same answer or the right error.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inferno.capture import Argument, Signature
from inferno.capture.autocast import is_any
from inferno.runtime.call.sizes import expected_shape
from inferno.runtime.call.transforms import forward_levels, level, modes, tracing
from inferno.runtime.plan.plan import Plan
from inferno.runtime.prepared import Prepared
from inferno.size_forms import as_python
from inferno.symbolic import Int
from inferno.told_sizes import read_off

_MOST_ADDRESSES = 64  # that are remembered not to overlap; beyond, all are found again
_MOST_ARGUMENTS = 2000  # compiling the text takes 20 us an argument


@dataclass(frozen=True)
class CallText:
    """A function in the making: its ``lines`` so far, what they name in ``scope``, the names of the arguments' ``values`` and of
    their ``addresses``; ``prepared`` is the number of tensors that come behind the constants: ``kept`` has them, ``r0``, ``r1``, ... are
    their addresses."""

    lines: list[str]
    scope: dict[str, Any]
    values: list[str]
    addresses: list[str]
    prepared: int = 0
    refuse: str = ""

    def compile(self) -> Callable:
        """The function ``call(*inputs)``.

        Tensors of torch.func's transforms raise a RuntimeError where their address is asked for: looking for the transform then alone costs
        other calls nothing.
        """
        lines = self.lines
        if self.refuse:
            lines = [lines[0], "    try:", *(f"    {line}" for line in lines[1:]), "    except RuntimeError:", "        if level() is None:",
                     "            raise", self.refuse]
        exec(compile("\n".join(lines), "<inferno fast call>", "exec"), self.scope)
        return self.scope["call"]


def written_in_place(signature: Signature, plan: Plan) -> tuple[int, ...] | None:
    """The numbers of the arguments that the program writes, all of them in place; None where it has results of another kind than that, or new."""
    written = []
    for i, (result, output) in enumerate(zip(signature.results, plan.outputs)):
        if result.kind == "mutation" and output.argument == result.target:
            written.append(result.target)
        elif result.kind == "mutation" or output.result != i:
            return None
    return tuple(written)


def begin_call(
    signature: Signature, slow: Callable, written: tuple[int, ...] | None, placed: str, first: Sequence[str] = (),
    prepared: Prepared | None = None,
) -> CallText | None:
    """The function up to the arguments' addresses; None for a program that is called in another way.

    It takes programs whose inputs are tensors, those by name behind those by position, and whose results are all new, or the arguments
    ``written`` in place: those must not overlap others, which the general way finds out for addresses that come for the first time.  ``placed``
    is the condition that the tensor ``{}`` is where it should be, ``first`` are conditions of no tensor; ``slow(*inputs)`` is the general way.  Sizes that
    vary are variables of the function, called as their symbols are.
    """
    inputs = signature.simple_arity + len(signature.simple_names)
    if inputs < 1 or len(signature.arguments) > _MOST_ARGUMENTS or written is None or signature.views:
        return None
    scope: dict[str, Any] = {"slow": slow, "Tensor": torch.Tensor, "build": signature.build_output, "level": level, "modes": modes, "tracing": tracing,
                             "forward": forward_levels, "autocast": is_any}
    names = [f"x{i}" for i in range(inputs)]
    lines = [f"def call({', '.join(names)}):"]
    values = dict(zip(signature.input_places, names))
    refuse = f"        return slow({', '.join(names)})"
    for i, table, _ in signature.held:
        values[i], scope[f"t{i}"] = f"p{i}", table
    if signature.held:
        lines += ["    try:", *(f"        p{i} = t{i}[{key!r}]" for i, _, key in signature.held), "    except KeyError:", refuse]
    traced = ["not modes()", "not autocast()", "tracing() is None", "forward['_current_level'] < 0"]
    conditions, frozen = [*first, *traced], add_prepared(lines, scope, prepared, refuse)
    for i, order in signature.orders:
        x, scope[f"order{i}"] = values[i], order
        values[i] = f"{x}o"
        lines.append(f"    {x}o = {x}.permute(order{i}) if isinstance({x}, Tensor) and {x}.dim() == {len(order)} else {x}")
    for i, part, shape in signature.parts:
        x, scope[f"whole{i}"], scope[f"of{i}"] = values[i], part.whole, shape
        values[i] = f"{x}o"
        lines.append(f"    {x}o = whole{i}({x}, of{i})")
    places = read_off([a.shape for a in signature.arguments])
    if places:
        read = [f"        {p.symbol.name} = {p.value(f'{values[p.argument]}.shape[{p.dim}]')}" for p in places]
        lines += ["    try:", *read, "    except (AttributeError, IndexError, TypeError):", refuse]
        conditions += [f"{p.symbol.low} <= {p.symbol.name} <= {p.symbol.high}" for p in places]
        conditions += [f"({guard})" for guard in signature.guards]
    for i, argument in enumerate(signature.arguments):
        # The address, which is compared later, is of memory that is held: it says the device too.
        same = [f"{values[i]} is w{i}", f"{values[i]}._version == v{i}"] if i in frozen else _whose(values[i], argument, placed)
        conditions += [*same, *_conditions(values[i], i, argument, scope)]
        if i in written:
            conditions.append(f"not {values[i]}.is_inference()")  # its writes are not counted
    addresses = [f"a{i}" for i in range(len(signature.arguments))]
    lines += [f"    if not ({' and '.join(conditions)}):", refuse]
    lines += [f"    {a} = {values[i]}.data_ptr()" for i, a in enumerate(addresses)]
    # Zeros without memory, and what functionalize gives, are at no address, as what is empty is.
    null = "".join(f" or not (a{i} or 0 in {values[i]}.shape)" for i in range(len(addresses)))
    lines += [f"    if ({' | '.join(addresses)}) & 15{''.join(f' or a{i} != q{i}' for i in frozen)}{null}:", refuse]
    if written:
        scope["apart"], scope["count_writes"] = _Apart(), torch.autograd.graph.increment_version
        lines += [
            f"    key = ({', '.join(addresses)},)", "    if key not in apart:", f"        result = slow({', '.join(names)})", "        apart.add(key)",
            "        return result",
        ]
    return CallText(lines, scope, [values[i] for i in range(len(addresses))], addresses, prepared.count if prepared else 0, refuse)


def _whose(name: str, argument: Argument, placed: str) -> list[str]:
    """The conditions that ``name`` is a tensor where it should be."""
    return [f"type({name}) is Tensor" if argument.kind == "input" else f"isinstance({name}, Tensor)", placed.format(name)]


def _conditions(name: str, number: int, argument: Argument, scope: dict[str, Any]) -> list[str]:
    """The conditions that the tensor ``name`` has the shape, type and strides of an argument; what they compare with is added to ``scope``."""
    shape, dense = f"shape{number}", f"{name}.is_contiguous()"
    if (known := expected_shape(argument)) is not None:
        scope[shape] = known
    else:
        shape = _tuple(argument.shape)
    if argument.kind != "input" and argument.order is not None:
        scope[f"st{number}"] = argument.outer_strides
        dense = f"{name}.stride() == st{number}"
    scope[f"d{number}"] = argument.dtype
    conditions = [f"{name}.shape == {shape}", f"{name}.dtype is d{number}", dense]
    if argument.kind == "input":
        conditions.append(f"not {name}.requires_grad")
    if argument.dtype.is_complex:  # its memory may hold the conjugate
        conditions.append(f"not {name}.is_conj()")
    if argument.dtype.is_complex or (argument.kind == "input" and argument.dtype.is_floating_point):  # as of z.conj().imag
        conditions.append(f"not {name}.is_neg()")
    return conditions


def add_prepared(lines: list[str], scope: dict[str, Any], prepared: Prepared | None, refuse: str) -> tuple[int, ...]:
    """Add the lines that read what is prepared: of each weight the tensor, its version and its address, for the caller to compare.
    The numbers of these weights."""
    if prepared is None:
        return ()
    scope["prepared"] = prepared
    names = [*(f"{letter}{n}" for n in prepared.weights for letter in "wvq"), *(f"r{i}" for i in range(prepared.count)), "kept"]
    lines += ["    state = prepared.state", "    if state is None:", refuse, f"    {', '.join(names)}, = state"]
    return prepared.weights


class _Apart(set):
    """Addresses of which the general way has found that they do not overlap; the last few."""

    def add(self, key: tuple[int, ...]) -> None:
        if len(self) >= _MOST_ADDRESSES:
            self.clear()
        super().add(key)


def return_outputs(text: CallText, signature: Signature, written: Sequence[int], results: Sequence[str]) -> None:
    """Add the lines that tell autograd of what was written in place, and return the outputs, made of the program's new ``results``."""
    if written:
        text.lines.append(f"    count_writes(({', '.join(text.values[i] for i in written)},))")
    outputs = [r for r in signature.results if r.kind == "output"]
    made = [y if r.strides is None else f"{y}.as_strided({_tuple(r.shape)}, {_tuple(r.strides)}).data" for y, r in zip(results, outputs)]
    text.lines.append(f"    return {made[0]}" if signature.single_output else f"    return build([{', '.join(made)}])")


def _tuple(sizes: Sequence[Int]) -> str:
    return f"({''.join(as_python(s) + ', ' for s in sizes)})"


def begin_segment(
    count: int, strides: dict[int, tuple[int, ...]], slow: Callable, filled: Collection[int], first: Sequence[str] = (),
    prepared: Prepared | None = None,
) -> CallText:
    """The same for a segment, whose caller has checked its ``count`` tensors but for those that eager made: their ``strides``
    by number must be these.  ``filled`` are the numbers of those that have elements."""
    names, addresses = [f"x{i}" for i in range(count)], [f"a{i}" for i in range(count)]
    lines = [f"def call({', '.join(names)}):"]
    refuse = f"        return slow({', '.join(names)})"
    scope: dict[str, Any] = {"slow": slow, **{f"st{i}": s for i, s in strides.items()}}
    frozen = add_prepared(lines, scope, prepared, refuse)
    conditions = [*first, *(f"x{i}.stride() == st{i}" for i in strides)]
    conditions += [c for i in frozen for c in (f"x{i} is w{i}", f"x{i}._version == v{i}")]
    if conditions:
        lines += [f"    if not ({' and '.join(conditions)}):", refuse]
    lines += [f"    {a} = {x}.data_ptr()" for a, x in zip(addresses, names)]
    if addresses:
        null = "".join(f" or not a{i}" for i in filled)
        lines += [f"    if ({' | '.join(addresses)}) & 15{''.join(f' or a{i} != q{i}' for i in frozen)}{null}:", refuse]
    return CallText(lines, scope, names, addresses, prepared.count if prepared else 0)
