"""One plain graph or many, as flat tensors."""
