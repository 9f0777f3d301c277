from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap

import pytest
import torch
import torch.distributed as dist
from torch import nn

from gnnak.errors import OptionError
from gnnak.nn.norm import (
    BatchNorm,
    NoNorm,
    RealRows,
    norm_over_processes,
    real_rows,
)


@pytest.mark.parametrize("num_rows", [0, 1])
def test_batch_norm_trains_on_no_row_and_on_one(num_rows):
    norm = BatchNorm(3).train()
    x = torch.ones(num_rows, 3)
    torch.testing.assert_close(norm(x), x / (1 + 1e-5) ** 0.5)
    assert torch.equal(norm.running_mean, torch.zeros(3))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_pytorchs_on_several_rows(training):
    ours, theirs = BatchNorm(3).train(training), nn.BatchNorm1d(3).train(training)
    x = torch.randn(5, 3)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_batch_norm_over_processes_counts_many_narrow_rows(dtype, tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        x = torch.randn(100_000, 2).to(dtype)
        out = unwrap(norm_over_processes)(BatchNorm(2).train(), x, None)
    finally:
        dist.destroy_process_group()
    wanted = BatchNorm(2).train()(x.float())
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), wanted, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 7])
def test_batch_norm_inside_real_rows_ignores_padding(num_rows):
    x = torch.randn(num_rows, 3, dtype=torch.double)
    padded = torch.cat([x, torch.full((5, 3), 9.0)]).requires_grad_()
    x.requires_grad_()
    plain, blind = (BatchNorm(3).double().train() for _ in range(2))
    for value in (plain.running_mean, plain.running_var, plain.weight, plain.bias):
        nn.init.uniform_(value, 0.5, 2.0)
    blind.load_state_dict(plain.state_dict())
    weights = torch.randn(num_rows, 3, dtype=torch.double)
    wanted = plain(x)
    (wanted * weights).sum().backward()
    with real_rows(RealRows(nodes=torch.tensor(num_rows), edges=torch.tensor(1))):
        got = blind(padded)
    assert got.isfinite().all()
    got = got[:num_rows]
    (got * weights).sum().backward()
    exact = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(got, wanted, **exact)
    torch.testing.assert_close(padded.grad[:num_rows], x.grad, **exact)
    assert not padded.grad[num_rows:].any()
    for ours, theirs in zip(blind.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, **exact)
    for ours, theirs in zip(blind.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, **exact)


def test_real_rows_do_not_matter_to_evaluation_nor_to_other_axes():
    x = torch.randn(4, 3)
    for training, axis in ((False, "nodes"), (True, "edges")):
        norm, plain = (BatchNorm(3, axis).train(training) for _ in range(2))
        with real_rows(RealRows(nodes=torch.tensor(2))):
            got = norm(x)
        assert torch.equal(got, plain(x))


def test_no_norm_sets_only_padding_to_zero():
    """Also infinite rows, whose gradients would otherwise be NaN."""
    x = torch.tensor([[1.0], [-2.0], [torch.inf]], requires_grad=True)
    assert NoNorm()(x) is x
    with real_rows(RealRows(nodes=torch.tensor(2))):
        out = NoNorm()(x)
    assert out.tolist() == [[1], [-2], [0]]
    out.sum().backward()
    assert x.grad.tolist() == [[1], [1], [0]]


def test_real_rows_belong_to_their_thread():
    x, norm = torch.randn(4, 3), BatchNorm(3).train()
    with real_rows(RealRows(nodes=torch.tensor(2))), ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(norm, x).result()
    torch.testing.assert_close(elsewhere, nn.BatchNorm1d(3).train()(x))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_batch_norm_inside_real_rows_is_wide_inside(dtype):
    x = torch.randn(1000, 2).to(dtype)
    with real_rows(RealRows(nodes=torch.tensor(900))):
        got = BatchNorm(2).train()(x)
    wanted = BatchNorm(2).train()(x[:900].float())
    assert got.dtype == dtype
    torch.testing.assert_close(got[:900].float(), wanted, rtol=0.01, atol=0.01)


def test_batch_norm_without_weights_ignores_padding_and_without_memory_says_so():
    x = torch.randn(6, 3)
    with real_rows(RealRows(nodes=torch.tensor(4))):
        got = BatchNorm(3, affine=False).train()(x)
        with pytest.raises(OptionError, match="cannot ignore padding"):
            BatchNorm(3, track_running_stats=False).train()(x)
    wanted = nn.BatchNorm1d(3, affine=False).train()(x[:4])
    torch.testing.assert_close(got[:4], wanted)
