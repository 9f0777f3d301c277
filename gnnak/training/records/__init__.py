"""Records (one JSON line per run), summaries over several runs, and checkpoints."""
