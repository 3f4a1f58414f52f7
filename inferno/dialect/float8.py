"""What a program says of numbers of 8 bits."""

# On @main: what is too large for float8_e4m3fn is no number, as in older versions of torch, instead of the largest one.
OVERFLOWS = "inferno.float8_overflows"
