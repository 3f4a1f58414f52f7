"""Is a result right, and if not, where does it go wrong?"""
