"""Tiles in shared memory that Hopper's copy engine (TMA) brings or takes, and what they cost.

``tiling`` cuts a contraction's loops, ``result_parts`` a tile's results into boxes; ``shared_tiles`` are the lines of memory of
a tile, and ``tile_ends`` what an epilogue takes.  ``inferno.codegen.nvvm.tma`` and ``tensor_core`` are the code."""
