"""Lightning callbacks: history, progress bar, timing, signals."""
