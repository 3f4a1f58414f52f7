"""What a call of a compiled module does around its plan: checks before, results after."""
