"""Fast implementations of the functions and methods with the decorator `operation`.

Each method of the classes here has the name and the arguments of the function that it
replaces; the docstring is there. It returns `NotImplemented` for arguments that it does
not support, and the plain function runs.
"""
