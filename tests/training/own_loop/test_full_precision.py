import pytest
import torch

from gnnak import GraphLoader, TrainingStep
from tests.training.own_loop.models import Gine, mae, molecules

MATMUL = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def _precision_restored():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("name", ["highest", "high", "medium"])
def test_models_are_compared_without_tf32(name):
    torch.set_float32_matmul_precision(name)
    before, seen = MATMUL.fp32_precision, []

    class Notes(Gine):
        """Notes the precision of matrix products in each call."""

        def forward(self, x, edge_index, edge_attr, batch):
            seen.append(MATMUL.fp32_precision)
            return super().forward(x, edge_index, edge_attr, batch)

    model = Notes().double()
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1))
    step(next(iter(GraphLoader(molecules(16), 8, pad=True))))
    assert step.reason is None
    *compared, trained = seen
    assert set(compared) == {"ieee"}
    assert trained == before == MATMUL.fp32_precision
    assert torch.get_float32_matmul_precision() == name


def test_models_may_read_the_old_setting_while_they_are_compared():
    torch.set_float32_matmul_precision("high")
    seen = []

    class Reads(Gine):
        """Reads whether TF32 is allowed."""

        def forward(self, x, edge_index, edge_attr, batch):
            seen.append(MATMUL.allow_tf32)
            return super().forward(x, edge_index, edge_attr, batch)

    model = Reads().double()
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1))
    step(next(iter(GraphLoader(molecules(16), 8, pad=True))))
    assert step.reason is None
    assert not any(seen[:-1])
    assert seen[-1]
