import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.training.records.checkpoint import seal_file, sealed, sync_folder, unsealed


@given(st.binary(max_size=99))
def test_unsealed_is_the_content_that_was_sealed(content):
    assert unsealed(sealed(content)) == content


@given(st.binary(max_size=99), st.data())
def test_unsealed_gets_the_content_or_an_error_after_a_bit_flip(content, data):
    changed = bytearray(sealed(content))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    try:
        found = unsealed(bytes(changed))
    except ValueError:
        return
    assert found == bytes(changed)  # the tag was hit, and no checksum was found
    assert found.startswith(content)


def test_unsealed_returns_files_without_a_checksum_unchanged():
    assert unsealed(b"") == b""
    assert unsealed(b"x" * 500) == b"x" * 500
    with pytest.raises(ValueError, match="checksum of the file is wrong"):
        unsealed(b"y" + sealed(b"x"))


def test_seal_file_leaves_a_file_that_torch_reads(tmp_path):
    path = tmp_path / "some.ckpt"
    torch.save({"a": torch.arange(3)}, path)
    whole = path.read_bytes()
    seal_file(path)
    sync_folder(tmp_path)
    assert unsealed(path.read_bytes()) == whole
    assert torch.load(path, weights_only=True)["a"].tolist() == [0, 1, 2]
