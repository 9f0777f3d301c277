import contextlib
import random
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from gnnak.datasets.record import Dataset
from gnnak.errors import CheckpointError, FileFormatError
from gnnak.training.module import batch_statistics, build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import (
    Checkpoint,
    load_checkpoint,
    read_tensors,
    seal_file,
    sealed,
    sync_folder,
    unsealed,
)
from gnnak.training.records.results import fingerprint
from gnnak.training.run import evaluate
from tests.training.small import edge_counts, small_config, triangles


@pytest.fixture
def checkpoint():
    config, info = small_config(), triangles(2).info
    weights = build_network(config, info).state_dict()
    return Checkpoint(config, info, weights, {"test": 0.5})


def test_checkpoint_is_read_back(checkpoint, tmp_path):
    path = tmp_path / "best.ckpt"
    checkpoint.save(path)
    again = load_checkpoint(path)
    assert again.config == checkpoint.config
    assert again.info == checkpoint.info
    assert again.scores == checkpoint.scores
    for name, weight in again.network().state_dict().items():
        assert torch.equal(weight, checkpoint.weights[name])


def test_load_checkpoint_refuses_other_files(checkpoint, tmp_path):
    path = tmp_path / "best.ckpt"
    with pytest.raises(FileFormatError, match="there is no file"):
        load_checkpoint(path)
    path.write_text("weights")
    with pytest.raises(CheckpointError, match="is damaged or not a checkpoint"):
        load_checkpoint(path)
    checkpoint.save(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(CheckpointError, match="is damaged or not a checkpoint"):
        load_checkpoint(path)
    torch.save({"state_dict": {}}, path)
    with pytest.raises(CheckpointError, match=r"give the best\.ckpt of a run"):
        load_checkpoint(path)
    torch.save([1], path)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        load_checkpoint(path)
    torch.save({"format": "gnnak checkpoint"}, path)
    with pytest.raises(CheckpointError, match="lacks 'config'"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": 2, "version": "9.0.0"}, "has layout 2, but this version reads"),
        ({"config": {"optics": {}}, "version": "9.0.0"}, "unknown option 'optics'"),
        ({"info": {"name": "x"}, "version": "0.0.1"}, "lacks 'node_features'"),
        ({"weights": 3, "version": "0.0.1"}, "has another layout"),
        ({"layout": "new", "version": "3.2.0"}, "has layout 'new'"),
        ({"degrees": "few", "version": "0.0.1"}, "degrees is 'few'"),
    ],
)
def test_checkpoint_of_another_version_names_both_versions(
    changes, message, checkpoint, tmp_path
):
    path = tmp_path / "best.ckpt"
    checkpoint.save(path)
    torch.save(torch.load(path, weights_only=True) | changes, path)
    wanted = f"{message}.*written by gnnak {changes['version']}, and this is gnnak 0"
    with pytest.raises(CheckpointError, match=wanted):
        load_checkpoint(path)


def test_checkpoint_of_a_version_without_layout_number_is_read(checkpoint, tmp_path):
    path = tmp_path / "best.ckpt"
    checkpoint.save(path)
    content = torch.load(path, weights_only=True)
    for name in ("layout", "fingerprint"):
        del content[name]
    del content["info"]["classes"]
    torch.save(content, path)
    assert load_checkpoint(path).info == checkpoint.info


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_read_tensors_raises_only_checkpoint_errors(tmp_path, data):
    path = tmp_path / "some.ckpt"
    torch.save({"weights": torch.arange(3.0)}, path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = bytearray(data.draw(st.binary(max_size=40)))
    elif data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(3 if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255)
        )
    path.write_bytes(content)
    with contextlib.suppress(CheckpointError):
        assert isinstance(read_tensors(path), dict)


@pytest.mark.parametrize("kind", ["best", "last"])
def test_read_tensors_has_right_values_after_500_bit_flips(kind, checkpoint, tmp_path):
    path = tmp_path / "some.ckpt"
    checkpoint.save(path)
    if kind == "last":  # Lightning writes it, then `RunHistory` seals it
        torch.save({"state_dict": dict(checkpoint.weights), "epoch": 3}, path)
        seal_file(path)
    whole, expected = path.read_bytes(), read_tensors(path)
    draw, refused = random.Random(0), 0
    for _ in range(500):
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            found = read_tensors(path)
        except CheckpointError:
            refused += 1
            continue
        assert same(found, expected)
    assert refused > 490


@pytest.mark.parametrize("seal", [True, False])
def test_a_directory_flag_in_the_zip_file_is_why_checkpoints_are_sealed(
    seal, checkpoint, tmp_path
):
    """No CRC covers the flag, which makes torch.load return uninitialised memory."""
    path = tmp_path / "best.ckpt"
    checkpoint.save(path)
    changed = bytearray(path.read_bytes() if seal else unsealed(path.read_bytes()))
    entry = changed.rfind(b"PK\x01\x02", 0, changed.rfind(b"/data/3"))
    changed[entry + 38] ^= 1 << 4  # external attributes: a folder
    path.write_bytes(changed)
    assert zipfile.ZipFile(path).testzip() is None
    with pytest.raises(CheckpointError) if seal else contextlib.nullcontext():
        read_tensors(path)


def test_load_checkpoint_reads_a_file_of_an_earlier_commit():
    old = load_checkpoint(Path(__file__).with_name("written_by_5f711b0.ckpt"))
    for part in ("validation", "test"):
        score = evaluate(old, edge_counts(), part, Machine("cpu")).score
        assert score == pytest.approx(old.scores[part], rel=1e-5)


def same(a, b):
    """Compare two nested dicts of tensors and plain values."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


def test_evaluate_refuses_other_targets_unless_allowed(checkpoint):
    data = triangles(4)
    assert data.store.y is not None
    other = replace(data, store=replace(data.store, y=1 - data.store.y))
    known = replace(checkpoint, fingerprint=fingerprint(data))
    score = evaluate(known, data).score
    with pytest.raises(CheckpointError, match=r"trained on other data: .*--other-data"):
        evaluate(known, other)
    assert evaluate(known, other, other_data=True).score == pytest.approx(1 - score)
    assert evaluate(checkpoint, other).score == pytest.approx(1 - score)


def test_read_tensors_refuses_pickled_objects(tmp_path):
    path = tmp_path / "evil.ckpt"
    torch.save({"format": "gnnak checkpoint", "config": nn.Linear(1, 1)}, path)
    with pytest.raises(CheckpointError, match="is damaged or not a checkpoint"):
        read_tensors(path)


def test_network_refuses_weights_of_another_model(checkpoint):
    other = replace(checkpoint, config=small_config(model__name="gcn-ak"))
    with pytest.raises(CheckpointError, match="do not fit its model gcn-ak"):
        other.network()


def test_evaluate_refuses_graphs_with_other_features(checkpoint):
    data = triangles(4)
    other = Dataset(replace(data.info, num_outputs=3), data.store, data.split)
    with pytest.raises(CheckpointError, match="with num_outputs 2, but here num_outp"):
        evaluate(checkpoint, other)


def test_batch_statistics_change_no_running_statistics():
    network = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.9)).eval()
    x = torch.tensor([[1.0, 4.0], [3.0, 8.0]])
    before = {
        k: v.clone() for k, v in network.state_dict().items() if "tracked" not in k
    }
    with batch_statistics(network):
        out = network(x)
    torch.testing.assert_close(out, torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    assert not network[0].training
    assert network[0].momentum == 0.1
    for name, value in before.items():
        assert torch.equal(network.state_dict()[name], value)
    with batch_statistics(network, wanted=False):
        torch.testing.assert_close(network(x), x / (1 + 1e-5) ** 0.5)


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
