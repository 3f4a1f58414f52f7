"""Which context a module is in: never one that holds another, nor one that was used very often."""

import threading

import pytest

from inferno.mlir import _USES, idle_context, ir, parse, run_upstream

MODULE = "func.func @main(%a: i32) -> i32 { return %a : i32 }"
DATA = """
func.func @main() -> tensor<2xf32> { %c = arith.constant dense_resource<values> : tensor<2xf32>  return %c : tensor<2xf32> }
{-# dialect_resources: { builtin: { values: "0x040000000000803F00000040" } } #-}
"""


def test_modules_at_one_time_are_in_contexts_of_their_own():
    modules = [parse(MODULE) for _ in range(6)]
    assert all(a.context is not b.context for i, a in enumerate(modules) for b in modules[:i])
    assert len({str(m) for m in modules}) == 1


def test_a_context_is_used_again_but_not_for_ever():
    found = []

    def use() -> None:  # in a thread, which begins with none
        found.append(parse(MODULE).context)
        found.extend(idle_context() for _ in range(2 * _USES))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    first, later = found[:_USES], found[_USES:]
    assert all(c is first[0] for c in first) and not any(c is first[0] for c in later)
    assert not any(idle_context() is c for c in found)


def test_data_is_in_no_context_that_is_used_again():
    parsed = parse(DATA)
    context = parsed.context
    assert "dense_resource<values>" in str(parsed)
    del parsed
    assert all(idle_context() is not context for _ in range(_USES))


def test_passes_that_failed_run_again():
    for text, right in (MODULE, False), ("module {}", True), (MODULE, False), ("module {}", True):
        module = parse(text)
        if right:
            run_upstream(module, "torch-verify-backend-contract-no-decompositions")
            continue
        with pytest.raises(ir.MLIRError, match="unsupported by backend contract"):
            run_upstream(module, "torch-verify-backend-contract-no-decompositions")


def test_values_of_one_name_keep_it():
    texts = [str(parse(DATA)) for _ in range(2)]
    assert texts[0] == texts[1]
