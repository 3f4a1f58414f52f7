"""Apply patterns until none applies any more."""

from inferno.mlir import ir, rewrite

# Upstream's default of 10 is not enough for programs whose operations depend on each other in long chains: 80 of them took
# between 20 and 50 rounds.  A limit there has to be, since patterns that undo each other would go on for ever.
_MOST_ROUNDS = 10_000


def rewrite_greedily(module: ir.Module, patterns: rewrite.RewritePatternSet) -> None:
    """Rewrite ``module`` in place by ``patterns``, with folding, to a fixed point."""
    config = rewrite.GreedyRewriteConfig()
    config.max_iterations = _MOST_ROUNDS
    rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze(), config)
