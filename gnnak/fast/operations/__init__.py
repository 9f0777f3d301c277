"""Fast implementations of functions and methods with the decorator `operation`.

Each public method here replaces the plain PyTorch function of the same name, which has
the same arguments and documents them. A method returns `NotImplemented` for arguments
that it does not support; the plain function then runs.
"""
