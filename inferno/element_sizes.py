"""What an element takes in memory."""

from inferno.mlir import ir


def bit_width(element: ir.Type) -> int:
    """Bits of an element in memory: a boolean takes a byte, an index 64 bits."""
    if isinstance(element, ir.IndexType):
        return 64
    if isinstance(element, ir.ComplexType):
        return 2 * bit_width(element.element_type)
    return max(8, element.width)


def element_bytes(element: ir.Type) -> int:
    """Bytes of an element in memory."""
    return bit_width(element) // 8
