"""Lightning callbacks: learning curves, progress bar, timing, signal handlers."""
