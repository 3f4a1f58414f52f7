"""Schedules that consist of others: several kernels, or small operations, in one launch (``siblings``, ``bundle``,
``one_block``), and several for one function whose sizes vary (``by_size``, on
``size_ranges``)."""
