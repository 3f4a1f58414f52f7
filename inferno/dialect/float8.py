"""What a program says of numbers of 8 bits."""

# On @main: what is too large for float8_e4m3fn is no number, as in older versions of torch, instead of the largest one.
OVERFLOWS = "inferno.float8_overflows"
# On the operation that makes a byte of a float32's bits: which number it is, "e4m3x2", "e5m2x2", or "e4m3x2 overflows".
ROUNDED = "inferno.float8"
