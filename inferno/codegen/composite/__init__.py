"""Several kernels, or many small operations, in one launch.

``siblings`` and ``bundle`` make kernels of other generators ``arms`` of one; ``by_size`` launches one of several; ``one_block``
goes through small operations with barriers between them (``scan_lanes`` are its scans)."""
