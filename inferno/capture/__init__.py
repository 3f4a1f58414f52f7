"""From a model to the ``torch`` stage: one functional graph of ATen operations.

Start with ``capture``, which drives torch.export, and ``decompose``.

* Export, the torch dialect, and how a call's Python values become the program's arguments and back: ``capture``, ``as_module``,
  ``export``, ``examples``, ``tracing``, ``program_tensors``, ``importer``, ``signature``.
* Mutation and memory that tensors share: ``functionalise``, ``written_inputs``, ``views``, ``aliases``, ``part_views``,
  ``overlapping_writes``.
* Operations that torch-mlir lacks or gets wrong, in terms of others; ``normalise`` brings what is left into the form that it
  imports: ``decompose`` (on ``operation_kinds``, ``size_nodes``), ``run_decompositions``, ``decompositions``.
* Which operations run in eager, and how a graph is cut there: ``partition``, ``refusal``, ``eager_errors``,
  ``library_faster``, ``sink``, ``recompute_pointwise``, ``assertions``.
* Training: ``rematerialise``, ``trained_attention``, ``attention_by_hand``, ``scored_attention``, ``kept_orders``.
* Sizes that vary, and values that decide on sizes: ``symbols``, ``dynamic_shapes``, ``residues``, ``equal_sizes``,
  ``known_sizes``, ``known_values``, ``scalar_places``, ``scalar_reads``, ``masked_parts``, ``masked_functions``,
  ``masked_places``, ``masked_puts``.
* Random numbers: ``draws``, ``replace_draws``, ``random_state``.
* Loops that Python has unrolled, as operations on whole tensors: ``roll_loops``, ``stack_windows``, ``batch_steps``,
  ``sums_of_products``.
* Complex numbers as pairs, and matrices of few rows by their elements: ``complex_numbers``, ``complex_functions``,
  ``complex_products``, ``small_matrices``.
* Strides: ``orders``, ``input_orders``, ``input_parts``, ``strided_places``, ``strided_writes``.
* What errors say of an operation, and a graph's key in the cache: ``failure``, ``nodes``, ``graph_key``.
"""

from typing import Any

from inferno.capture.capture import Captured, Exported, capture, export_model
from inferno.capture.signature import Argument, Frozen, Result, Signature, View

__all__ = ["Argument", "Captured", "Exported", "Frozen", "Result", "Signature", "View", "capture", "explain_failure", "export_model"]


def __getattr__(name: str) -> Any:
    # Lazily, since a package, which needs signatures, loads without MLIR.
    if name == "explain_failure":
        from inferno.capture.failure import explain_failure
        return explain_failure
    raise AttributeError(f"module 'inferno.capture' has no attribute {name!r}")
