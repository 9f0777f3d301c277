"""Everything that exists for speed alone; the rest of the package works without it."""
