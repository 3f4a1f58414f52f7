"""The launch plan: what it is, how it is read from the compiled program, where its buffers lie."""
