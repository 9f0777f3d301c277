"""Optional packages: errors about missing ones, and whether Triton can be used."""

import importlib
import importlib.util
import os
from functools import cache
from typing import Any

from gnnak.errors import MissingPackageError

EXTRAS = {
    "rdkit": "chem",
    "huggingface_hub": "hub",
    "pyarrow": "parquet",
    "qm9pack": "qm9",
    "ray": "ray",
    "scikit-learn": "sklearn",
    "tensorboard": "tensorboard",
}
"""Maps each optional package to the pip extra of gnnak that installs it."""


def missing_package(use: str, package: str) -> MissingPackageError:
    """Return the error for a missing package, with advice on how to install it."""
    return MissingPackageError(
        f"{use} {package}; install it with pip install {package}, or install gnnak "
        f"with its extra {EXTRAS[package]}."
    )


def import_optional(module: str, use: str, package: str) -> Any:
    """Import a module of an optional package; `use` begins the error if missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_package(use, package) from error


@cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def interprets_triton() -> bool:
    """Return whether Triton interprets kernels, so that they also run on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"
