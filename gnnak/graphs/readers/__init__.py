"""Convert files and other libraries' graphs to a `GraphStore`, and back."""
