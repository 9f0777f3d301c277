"""Build the HTML report, its figures, and the paper's tables with our results."""
