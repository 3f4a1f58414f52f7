"""Contraction kernels as text, in split form: any loops, layouts, prologues and epilogues."""

import re

from kernels import tensor


def contraction(
    sizes: dict[str, int], lhs: str, rhs: str, out: str, element: str = "bf16", *, extras: tuple[tuple[str, str], ...] = (),
    results: tuple[str, ...] = (), body: str = "", prologue: tuple[str, str] | None = None, attributes: str = "",
    layouts: tuple[str, ...] = (),
) -> str:
    """``out = lhs * rhs`` summed over the loops that ``out`` lacks; operands are named by one letter for each dimension.

    ``body`` computes values %y0, %y1, ... of the types ``results`` from the sum %s (f32) and the extras %e0, %e1, ..., which are
    given as (letters, type); ``layouts`` are the results' letters where they differ from ``out``.  ``prologue`` is (type, body)
    and computes %y of type ``element`` from the lhs's %x.
    """
    loops, wide = "".join(sizes), element != "f32"

    def type_(letters: str, of: str) -> str:
        return tensor(tuple(sizes[d] for d in letters), of)

    def map_(letters: str, over: str) -> str:
        return f"affine_map<({','.join(over)}) -> ({','.join(letters)})>"

    layouts = layouts or (out,) * len(results)
    kept = "".join(d for d in loops if d in out)
    kinds = ", ".join('"parallel"' if d in out else '"reduction"' for d in loops)
    read = prologue[0] if prologue else element
    arguments = [f"%x: {type_(lhs, read)}", f"%w: {type_(rhs, element)}"]
    arguments += [f"%a{i}: {type_(*e)}" for i, e in enumerate(extras)]
    destinations = [type_(o, t) for o, t in zip(layouts, results)] or [type_(out, "f32")]
    arguments += [f"%o{i}: {t}" for i, t in enumerate(destinations)]
    parallel = ", ".join(['"parallel"'] * len(lhs))
    before = f"""%pe = tensor.empty() : {type_(lhs, element)}
      %p = linalg.generic {{indexing_maps = [{map_(lhs, lhs)}, {map_(lhs, lhs)}], iterator_types = [{parallel}]}}
          ins(%x : {type_(lhs, read)}) outs(%pe : {type_(lhs, element)}) {{
        ^bb0(%x0: {read}, %old: {element}):
          {prologue[1].replace("%x", "%x0")}
          linalg.yield %y : {element} }} -> {type_(lhs, element)}""" if prologue else ""
    extend = f"""%l = arith.extf %a : {element} to f32
          %r = arith.extf %b : {element} to f32""" if wide else ""
    factors = "%l, %r" if wide else "%a, %b"
    acc = type_(out, "f32")
    after, values = "", "%0"
    if results:
        maps = ", ".join(map_(x, kept) for x in (out, *(e[0] for e in extras), *layouts))
        names, types = "".join(f", %a{i}" for i in range(len(extras))), "".join(f", {type_(*e)}" for e in extras)
        outs = ", ".join(f"%o{i}" for i in range(len(results)))
        block = ["%s: f32", *(f"%e{i}: {e[1]}" for i, e in enumerate(extras)), *(f"%old{i}: {t}" for i, t in enumerate(results))]
        count = f":{len(results)}" if len(results) > 1 else ""
        after = f"""%1{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join(['"parallel"'] * len(kept))}]}}
          ins(%0{names} : {acc}{types}) outs({outs} : {", ".join(destinations)}) {{
        ^bb0({", ".join(block)}):
          {body}
          linalg.yield {", ".join(f"%y{i}" for i in range(len(results)))} : {", ".join(results)} }}
          -> ({", ".join(destinations)})"""
        values = ", ".join(f"%1#{i}" for i in range(len(results))) if len(results) > 1 else "%1"
    returned = ", ".join(destinations)
    return f"""func.func private @mm({", ".join(arguments)}) -> ({returned}) {{
      %zero = arith.constant 0.0 : f32
      {before}
      %e = tensor.empty() : {acc}
      %f = linalg.fill ins(%zero : f32) outs(%{"e" if results else "o0"} : {acc}) -> {acc}
      %0 = linalg.generic {{indexing_maps = [{map_(lhs, loops)}, {map_(rhs, loops)}, {map_(out, loops)}], iterator_types = [{kinds}]}}
          ins(%{"p" if prologue else "x"}, %w : {type_(lhs, element)}, {type_(rhs, element)}) outs(%f : {acc})
          {f"attrs = {attributes}" if attributes else ""} {{
        ^bb0(%a: {element}, %b: {element}, %t: f32):
          {extend}
          %q = arith.mulf {factors} : f32
          %u = arith.addf %t, %q : f32
          linalg.yield %u : f32 }} -> {acc}
      {after}
      return {values} : {returned}
    }}"""


def varying(text: str, sizes: dict[int, tuple[int, int]]) -> str:
    """A kernel as text with some of its sizes made symbols, n0, n1, ...: ``sizes`` has their (least, largest) values by the number,
    used for nothing else, that each is in ``text`` and in the example."""
    symbols = {size: f"%n{i}" for i, size in enumerate(sizes)}

    def argument(match: re.Match) -> str:
        dims = [int(d) for d in match["dims"].split("x")[:-1]]
        if not set(dims) & set(sizes):
            return match[0]
        exprs = ", ".join(f"s{list(sizes).index(d)}" if d in sizes else str(d) for d in dims)
        known = ", ".join(f"s{i}" for i in range(len(sizes)))
        return f"{match[0]} {{inferno.sizes = affine_map<()[{known}] -> ({exprs})>}}"

    def empty(match: re.Match) -> str:
        found = [symbols[int(d)] for d in match["dims"].split("x")[:-1] if int(d) in sizes]
        return f"tensor.empty({', '.join(found)}) : tensor<{match['dims']}{match['element']}>"

    head, arrow, rest = text.partition("->")
    head = re.sub(r"%\w+: tensor<(?P<dims>(\d+x)+)\w+>", argument, head)
    arguments = ", ".join(
        f'{symbols[s]}: index {{inferno.symbol = "{symbols[s][1:]}", inferno.range = [{low}, {high}], inferno.divisor = 1, inferno.hint = {s}}}'
        for s, (low, high) in sizes.items()
    )
    text = head.replace("(", f"({arguments}, ", 1) + arrow + rest
    text = re.sub(r"tensor\.empty\(\) : tensor<(?P<dims>(\d+x)+)(?P<element>\w+)>", empty, text)
    for size in sizes:
        text = re.sub(rf"(?<=[<x]){size}(?=x)", "?", text)
    return text
