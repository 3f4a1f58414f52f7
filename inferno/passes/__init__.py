"""The passes, by name, in the order in which the pipelines run them, each with what it does.

A pass is a function ``(module: ir.Module, **options: str) -> None`` that rewrites the module in place and raises ``PassError``
when it cannot.  One pass a file; those of later packages (schedule, codegen, runtime) are listed here too, by name: nothing is
imported before it is used.

This package holds the passes of ``inferno-import`` and ``inferno-fuse``, which take no target; what they need to know of it,
attributes of the module say.  To read them in order, start with ``pipelines.py`` (which passes, and what each group is for) and
``manager.py`` (how a pipeline runs).  What passes share:

* ``generics`` and ``generic_attributes`` (reading and building ``linalg.generic``), ``affine`` (linear functions of loops), ``contraction`` and
  ``convolution`` (what such an operation computes), ``shapes`` (sizes as expressions of symbols), ``programs`` (``@main`` and its kernels), ``parts``
  (slices), ``greedy`` (rewriting to a fixed point);
* ``orders`` and ``reorderings`` (layouts, for ``choose_layouts``), ``movements`` (operations that only move data), ``selected_products``,
  ``places``, ``neighbours``, ``lanes`` and ``gathered_producers`` (gathers), ``few_terms``, ``moved_norms`` and ``reversals`` (rewrites that a
  pass of another name applies).
"""

from collections.abc import Callable
from importlib import import_module

# What each pass does, by the package that it is in.  The pass ``fold-empty`` of ``passes`` is the function ``fold_empty`` in
# ``inferno/passes/fold_empty.py``, but for those in ``_ELSEWHERE``.
_SUMMARIES = (
    ("passes", {
        # inferno-import: torch -> linalg
        "import-bitcasts": "Import x.view(dtype) between float and integer types of the same width.",
        "import-roundings": "Import the program's own casts to 16-bit floats as roundings that no fusion removes.",
        "import-constants": "Import tensors that hold one number as fills, out of reach of torch-mlir's constant folding.",
        "import-scans": "Import running extrema, products and linear recurrences as tm_tensor.scan.",
        "import-row-extremes": "Import extremes of rows that share an index as scatters of rows.",
        "import-gathers": "Import gathers by several index tensors of varying sizes.",
        "import-scatters": "Import writes and additions to rows at places whose number varies.",
        "restore-constants": "Make the fills of import-constants constants again, for canonicalization.",
        "bound-shifts": "Define shifts by negative or too large numbers as torch does; arith leaves them undefined.",
        "widen-casts": "Convert floats to 8- and 16-bit integers by way of int32, as torch wraps them around.",
        "name-symbols": "Make dynamic sizes index arguments of @main, and every other size an expression of them.",
        "trim-windows": "Slice off what no window of a strided convolution or pooling reaches.",
        "check-import": "Refuse a program that was imported wrong or only in part.",
        # inferno-fuse: linalg -> fused
        "store-float8": "Store 8-bit floats as bytes, and convert them by integer arithmetic that rounds as torch does.",
        "mark-terms": "Mark elementwise float32 products, which may not be rounded to TF32 when they become a contraction.",
        "remove-asserts": "Remove run-time assertions, and what only their conditions need.",
        "fold-empty": "Replace operations on tensors without elements by what they start from.",
        "join-writes": "Write to a slice of a slice directly, instead of copying the outer slice back.",
        "fold-casts": "Drop casts to less static types in front of concatenations.",
        "lift-constants": "Make tensor constants scalars, fills, or arguments of @main.",
        "fold-transposes": "Fold transposes, broadcasts and copies into the indexing maps of their readers.",
        "skip-zeros": "Compute a transposed convolution by phases, without the zeros that were inserted into its image.",
        "mark-convolutions": "Mark convolutions for later passes, and add their bias as an epilogue.",
        "fold-wraps": "Drop the wrap-around of indices that are known not to be negative; fold remainders and quotients.",
        "expand-patches": "Rewrite convolutions whose windows do not overlap as matrix products.",
        "choose-layouts": "Choose the layout of every tensor: channels last where there are convolutions.",
        "stack-rows": "Rewrite convolutions of few channels so that a window's rows are channels.",
        "pad-channels": "Pad the channels of convolutions to whole 16 bytes, which TMA needs.",
        "propagate-reshapes": "Move reshapes behind elementwise operations and other reshapes.",
        "expand-loops": "Split flattened batch loops of contractions, so that no operand has to be copied.",
        "expand-groups": "Give padding and epilogues of grouped convolutions the groups' dimension.",
        "refine-reshapes": "Split the loops of elementwise operations into the common refinement of the shapes between them.",
        "fold-fills": "Rewrite products with constant-filled factors as row sums.",
        "fold-scans": "Rewrite running sums of one number as maps.",
        "trim-results": "Compute only the part of a product, norm or softmax that is read.",
        "merge-scales": "Multiply two per-channel scales with each other instead of one after the other.",
        "move-factors": "Move a power of two from a contraction's operand to its result.",
        "split-frozen": "Split what depends on frozen weights alone off an operation's body.",
        "hoist-frozen": "Move what depends on frozen weights alone to @prepare.",
        "merge-phases": "Rewrite a concatenation of all phases of a tensor, such as even and odd rows, as a transposition.",
        "compose-moves": "Compose rolls, reshapes and transposes of rows into one gather.",
        "split-concats": "Multiply the pieces of a concatenation separately where rows of them are taken.",
        "sink-concats": "Reduce the pieces of a concatenation separately instead of concatenating them.",
        "expand-pieces": "Rewrite concatenations, paddings and slice writes as elementwise operations.",
        "transpose-returned": "Compute a result in the transposed layout that the program returns.",
        "split-windows": "Reduce large windows that overlap along one side after the other.",
        "expand-windows": "Rewrite poolings and reductions of few rows as elementwise operations.",
        "take-rows": "Gather rows before a norm or softmax of each row, not after it.",
        "sink-gathers": "Reduce or multiply the rows that there are, and take the results, where more rows are taken.",
        "lift-slices": "Slice what an elementwise operation reads instead of its result, where a reshape is next to the slice.",
        "expand-maps": "Move a reshape between two elementwise operations behind the second one.",
        "turn-maps": "Make what several operations read in another order in that order.",
        "fuse-elementwise": "Fuse elementwise operations into their elementwise or reducing readers.",
        "unroll-sums": "Rewrite reductions of a few terms as elementwise operations.",
        "write-slices": "Rewrite a select between a new and an old element by its index as a slice write.",
        "join-slices": "Compose slices of slices.",
        "hoist-slices": "Compute an elementwise operation or scan only where slices read it.",
        "cut-reshaped": "Slice the reshaped tensor instead of reshaping the slice.",
        "drop-results": "Drop results of multi-result operations that nothing reads.",
        "fold-reductions": "Make one reduction of a reduction of a reduction.",
        "fuse-gathers": "Compute an elementwise operation only at the elements that are gathered.",
        "narrow-comparisons": "Compare a float32 with a constant in float32 instead of float64.",
        "widen-arithmetic": "Compute bf16 and f16 bodies in f32.",
        "widen-sums": "Accumulate 16-bit sums of products in float32.",
        "widen-vectors": "Keep small intermediate results, such as means, in float32 between kernels.",
        "narrow-intermediates": "Store what was computed in 16 bits as 16 bits, and widen it in its readers.",
        "sink-transposes": "Compute in a transposed tensor's own layout where all readers can follow.",
        "fuse-contractions": "Fuse a contraction with its prologues and its epilogue into one linalg.generic.",
        "split-contractions": "The inverse of fuse-contractions, by which generators read a kernel.",
        "join-contractions": "The inverse of split-contractions.",
        "order-batches": "Put the batch dimension outermost between two batched products.",
        "restore-batches": "Restore the unit batch dimension of a convolution's image.",
        "draw-numbers": "Compute random numbers (Philox) in the operations that read them.",
        "fill-starts": "Make maps that yield a constant fills, where a scatter starts from them.",
        "negate-terms": "Rewrite reductions that subtract their terms as sums of negated terms.",
        "keep-exact": "Turn the marks of mark-terms that a sum reads into inferno.exact.",
        "outline-kernels": "Outline each group of operations that is one kernel into a private function.",
        "deduplicate-kernels": "Merge equal kernel functions.",
    }),
    ("schedule.passes", {
        # inferno-schedule: fused -> scheduled
        "fuse-rows": "CPU: fuse kernels that go over the same rows (softmax, layer norm).",
        "roll-steps": "Roll equal steps that depend on each other into a loop: recurrent layers.",
        "fuse-attention": "Fuse two contractions and the softmax, or the function of scores, between them: attention.",
        "fuse-attention-gradients": "Fuse the products of attention's backward pass.",
        "fuse-grouped": "Hopper: fuse batched products and the selection of each row's matrix: a mixture's experts.",
        "split-operands": "Hopper: write a computed operand to memory once, where that beats computing it for each tile.",
        "fuse-duals": "Hopper: fuse two contractions that share an operand and meet elementwise: SwiGLU.",
        "fuse-row-epilogues": "Hopper: fuse row-wise operations (softmax, norms) into the contraction in front of them.",
        "fuse-epilogues": "Hopper: fuse several elementwise readers into a contraction with several results.",
        "split-long-sums": "Hopper: split a product with a long reduction into parts that a second kernel adds up.",
        "split-terms": "Write gathered terms to memory before they are reduced.",
        "split-totals": "Split a full reduction that reads row sums into one by rows and one of those.",
        "merge-softmaxes": "Compute a row's maximum and its sum of exponentials in one pass over memory.",
        "fuse-reductions": "Fuse maps and reductions of the same rows (softmax, norms) into one kernel.",
        "merge-variances": "Compute a sum and the sum of squared deviations from its mean in one pass over memory.",
        "merge-sums": "Merge reductions of the same tensor over the same loops.",
        "fuse-channel-sums": "Hopper: let a convolution's kernel compute the per-channel statistics of its result.",
        "fuse-totals": "Fuse a full reduction of a row-wise kernel's result into that kernel.",
        "recompute-maps": "Recompute an elementwise kernel in each of its readers, where that beats reading its result.",
        "recompute-results": "Recompute elements that a kernel over rows writes in their readers, where that beats writing and reading them.",
        "hoist-vectors": "Compute once, in a kernel of its own, what a kernel recomputes for each of many points.",
        "compute-gathered": "Compute what a map makes in the map that gathers its elements, where that beats writing and reading them.",
        "fuse-sum-maps": "Fuse the small map of a reduction's results (a mean's quotient) into the reduction.",
        "fuse-sorts": "Let sorts generate the indices that they carry along, and write only what is read.",
        "shift-scans": "Shift the input of a scan instead of its result: exclusive sums.",
        "fuse-scans": "Fuse elementwise operations before and after a scan into it.",
        "fuse-scatters": "Let scatters compute the indices and elements that they write.",
        "fuse-convolutions": "CPU: fuse padding and bias into convolutions.",
        "fold-slices": "Let contractions and scans read slices in place.",
        "join-steps": "Make one kernel of the steps of an unrolled loop and of the stack of their values.",
        "merge-maps": "Merge elementwise kernels over the same points.",
        "fuse-small": "Run several small kernels as one thread block, with barriers in place of launches.",
        "merge-reads": "Merge maps and reductions that read the same tensors.",
        "split-padding": "Keep a convolution's padding in its kernel only where the generator supports it.",
        "split-pieces": "Concatenate in the pieces' own layout, and transpose afterwards.",
        "order-tables": "Change the layout of gathered tensors where gathers would not be coalesced.",
        "order-results": "Hopper: let a convolution write its result transposed.",
        "batches-first": "Put an innermost batch dimension of products outermost, where that pays.",
        "order-operands": "Copy an operand whose layout tensor cores cannot read, or read slowly.",
        "write-parts": "Write a changed slice in place instead of copying the tensor.",
    }),
    ("schedule", {
        "assign-schedules": "Choose a generator and a schedule for each kernel by the cost model.",
    }),
    ("schedule.passes", {
        "prepare-operands": "Convert frozen weights to the form that a kernel reads, in @prepare.",
        "merge-siblings": "Merge independent contractions of one tensor (queries, keys, values) into one launch.",
        "bundle-kernels": "Bundle small independent kernels into one launch.",
        "write-caches": "Hopper: let attention write the step's keys and values to the caches.",
        "merge-writes": "Merge independent slice writes into one kernel.",
        "fold-places": "Let the remaining scatters compute their indices.",
        "mark-overwrites": "Find kernels whose results may overwrite their inputs, and order calls for it.",
        "bundle-updates": "bundle-kernels for updates that mark-overwrites lets happen in place.",
        "place-results": "Let kernels write their results where a concatenation has them.",
        "turn-back": "Let a kernel read a large tensor from its end, which the L2 cache still holds.",
        "mark-successors": "Mark kernels by what is launched behind them, another kernel or a library's.",
        "explain-boundaries": "Annotate calls with the tensors that pass between kernels, and why they are not fused.",
    }),
    ("codegen", {
        # inferno-generate: scheduled -> gpu
        "generate-kernels": "Generate the code of each kernel by its schedule.",
    }),
    ("runtime.plan", {
        "plan-launches": "Rewrite @main as a sequence of launches on buffers.",
        "plan-memory": "Place the buffers between kernels in one workspace.",
    }),
    ("passes", {
        # after inferno-lower, on the LLVM dialect
        "await-kernels": "Overlap a kernel's launch with its predecessor (programmatic dependent launch).",
    }),
)
_ELSEWHERE = {
    "keep-exact": "mark_terms", "fold-places": "fuse_scatters", "bundle-updates": "bundle_kernels", "assign-schedules": "assign",
    "generate-kernels": "generate", "plan-launches": "launches", "plan-memory": "memory",
}


def _place(package: str, name: str) -> str:
    """A pass's module and function, as ``module:function``."""
    function = name.replace("-", "_")
    return f"inferno.{package}.{_ELSEWHERE.get(name, function)}:{function}"


_PASSES = {name: _place(package, name) for package, group in _SUMMARIES for name in group}


def pass_names() -> list[str]:
    """The names of all passes, in the order of the table."""
    return list(_PASSES)


def modules() -> list[str]:
    """The modules that the passes are in."""
    return list(dict.fromkeys(place.partition(":")[0] for place in _PASSES.values()))


def find_pass(name: str) -> Callable:
    """The function of a pass."""
    module, function = _PASSES[name].split(":")
    return getattr(import_module(module), function)


def summary(name: str) -> str:
    """What a pass does, in a sentence."""
    return next(group[name] for _, group in _SUMMARIES if name in group)
