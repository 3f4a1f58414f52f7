"""Contraction kernels as text, in split form: any loops, layouts, prologues and epilogues."""

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
