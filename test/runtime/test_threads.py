"""What several threads do at once."""

from concurrent.futures import ThreadPoolExecutor

from inferno.mlir import ir, new_context


def test_contexts():
    with ThreadPoolExecutor(8) as threads:
        contexts = list(threads.map(lambda _: new_context(), range(64)))
    for context in contexts:
        assert context.is_dialect_loaded("inferno") and "arith.constant" in str(ir.Module.parse("%0 = arith.constant 1 : i32", context))
