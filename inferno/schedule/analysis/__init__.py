"""What analyses of kernels share, whatever kind of kernel it is.

* Where tensors lie, and what an operation reads: ``accesses`` (an offset and strides), ``affine_extracts`` (gathers whose
  indices are linear), ``chosen_terms`` (pieces of a concatenation), ``known_places``
  (choices that loops decide), ``pages`` (a page table's rows), ``written_parts`` (results
  that are a changed slice).
* What an element is: ``expressions``, read off the IR by ``expression_tracer``, simplified by ``expression_folding``, made IR
  again by ``expression_maps``; a kernel's elementwise part as a kernel of its own (``as_map``).
* How values are combined (``combiners``), which loops correspond (``shared_points``), which parts of a function are independent
  (``kernel_parts``), what a kernel costs at least (``cost``), operands in a form made before (``kept_operands``), numbers of
  rows that vary (``varying_rows``), and the cache of all of this (``unchanged``)."""
