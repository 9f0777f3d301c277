"""Build the paper's tables with our results, figures, and the HTML report."""
