import pytest
import torch
import torch.distributed as dist
from torch import nn

from gnnak.nn.norm import BatchNorm


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
        out = BatchNorm(2).train()._over_processes(x)
    finally:
        dist.destroy_process_group()
    wanted = BatchNorm(2).train()(x.float())
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), wanted, rtol=0.01, atol=0.01)
