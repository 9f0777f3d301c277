"""Read pickles that contain only tensors in lists and dicts, without running code.

A pickle names the Python functions that rebuild its objects, so reading a pickle with
`pickle.load` can call any function. Here only the names that a pickled tensor needs are
known, and each of them stands for a function of this file. Any other name is refused.
"""

import io
import pickle
from collections import OrderedDict
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from gnnak.errors import FileFormatError


class PickledTensor(NamedTuple):
    """A tensor in a pickle, not yet decoded; `decode` returns the tensor."""

    storage: bytes
    """The numbers, as `torch.save` writes a storage."""
    offset: int
    """Position of the first number of the tensor in the storage."""
    size: tuple[int, ...]
    """Shape of the tensor."""
    stride: tuple[int, ...]
    """Stride of the tensor."""

    def decode(self) -> Tensor:
        """Return the tensor; raise `FileFormatError` if it is malformed."""
        try:
            content = io.BytesIO(self.storage)
            numbers = torch.load(content, map_location="cpu", weights_only=True)
            flat = torch.empty(0, dtype=numbers.dtype).set_(numbers._untyped_storage)
            return flat.as_strided(self.size, self.stride, self.offset).clone()
        except Exception as error:  # damaged bytes raise many types
            raise FileFormatError("a pickled tensor is malformed.") from error


class _Rebuild:
    """Stands for the functions of PyTorch that rebuild a tensor from its storage."""

    __slots__ = ()

    def __call__(
        self, storage: bytes, offset: int, size: Any, stride: Any, *_: object
    ) -> PickledTensor:
        return PickledTensor(storage, offset, tuple(size), tuple(stride))


class _Storage:
    """Stands for the function of PyTorch that reads a storage; returns its bytes."""

    __slots__ = ()

    def __call__(self, content: bytes) -> bytes:
        return content


class _Bytes:
    """Stands for the function that makes bytes from text in pickles of Python 2."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        return text.encode("latin1")


KNOWN = {
    ("_codecs", "encode"): _Bytes(),
    ("torch._utils", "_rebuild_tensor"): _Rebuild(),
    ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(),
    ("torch.storage", "_load_from_bytes"): _Storage(),
    ("collections", "OrderedDict"): OrderedDict,
}
"""The only names that may occur in a pickle, and what they stand for."""


class _TensorsOnly(pickle.Unpickler):
    """Read a pickle of lists, dicts, numbers, strings and tensors."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object for a name; refuse all names that tensors do not need."""
        try:
            return KNOWN[module, name]
        except KeyError as error:
            raise FileFormatError(
                f"the pickle refers to {module}.{name}; it is not read, because it "
                "could run code."
            ) from error


def read_tensors(file: IO[bytes]) -> Any:
    """Read a pickle of lists, dicts, numbers, strings and tensors.

    Args:
        file: The pickle, open for reading.

    Returns:
        The content, with a `PickledTensor` for every tensor.

    Raises:
        FileFormatError: If the pickle refers to any other object, or is damaged.
    """
    try:
        return _TensorsOnly(file).load()
    except FileFormatError:
        raise
    except Exception as error:  # damaged pickles raise many types
        raise FileFormatError("the pickle is damaged.") from error
