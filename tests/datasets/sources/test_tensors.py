import io
import pickle
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.datasets.sources.archive import KNOWN, PickledTensor, read_tensors
from gnnak.errors import FileFormatError
from tests.datasets.sources.internet import Evil

WHOLE = pickle.dumps([{"a": torch.arange(4)}])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_read_tensors_equals_pickle(protocol):
    base = torch.arange(12).view(3, 4)
    tensors = [base, base.t(), base[1:, ::2], torch.tensor(1.5), torch.zeros(0, 3)]
    tensors += [torch.tensor([1, 2], dtype=kind) for kind in (torch.int8, torch.half)]
    content = pickle.dumps([{"a": 1, "b": tensor} for tensor in tensors], protocol)
    found = read_tensors(io.BytesIO(content))
    for entry, tensor in zip(found, tensors, strict=True):
        decoded = entry["b"].decode()
        assert decoded.dtype == tensor.dtype
        assert torch.equal(decoded, tensor)


def test_read_tensors_never_runs_a_pickled_call(tmp_path):
    for content in (Evil(tmp_path / "evil"), [torch.ones(1), Evil(tmp_path / "evil")]):
        with pytest.raises(FileFormatError, match=r"refers to .*eval; it is not read"):
            read_tensors(io.BytesIO(pickle.dumps(content)))
    assert not (tmp_path / "evil").exists()


def test_decode_never_runs_a_call_in_a_storage(tmp_path):
    hidden = io.BytesIO()
    torch.save(Evil(tmp_path / "evil"), hidden)
    for storage in (hidden.getvalue(), pickle.dumps(Evil(tmp_path / "evil")), b""):
        with pytest.raises(FileFormatError, match="a pickled tensor is malformed"):
            PickledTensor(storage, 0, (1,), (1,)).decode()
    assert not (tmp_path / "evil").exists()


def test_decode_refuses_a_shape_beyond_the_storage():
    (tensor,) = read_tensors(io.BytesIO(pickle.dumps([torch.arange(4)])))
    for size, stride, offset in (((5,), (1,), 0), ((2,), (2**40,), 0), ((1,), (1,), 9)):
        with pytest.raises(FileFormatError, match="malformed"):
            PickledTensor(tensor.storage, offset, size, stride).decode()


def test_known_names_cannot_be_changed_by_a_pickle():
    before = dict(KNOWN)
    names = (b"torch.storage _load_from_bytes", b"collections OrderedDict")
    for module, name in (pair.split() for pair in names):
        build = b"c%b\n%b\n(dX\x01\x00\x00\x00aI1\nsb." % (module, name)
        with pytest.raises(FileFormatError, match="the pickle is damaged"):
            read_tensors(io.BytesIO(build))
    assert before == KNOWN
    assert not hasattr(OrderedDict, "a")


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_read_tensors_of_damaged_bytes_returns_or_raises_file_format_error(at, byte):
    content = bytearray(WHOLE)
    content[at] = byte
    for damaged in (bytes(content), WHOLE[:at]):
        try:
            read_tensors(io.BytesIO(damaged))[0]["a"].decode()
        except (FileFormatError, AttributeError, KeyError, TypeError, IndexError):
            continue
