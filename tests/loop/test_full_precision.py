import pytest
import torch

from gnnak import GraphLoader, TrainingStep
from tests.loop.models import Gine, mae, molecules

MATMUL = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def _precision_restored():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def settings_seen(name: str) -> list:
    """Return the setting `name` of matrix products in each call of a compared model.

    The last call is that of the training step.
    """
    seen = []

    class Notes(Gine):
        def forward(self, x, edge_index, edge_attr, batch):
            seen.append(getattr(MATMUL, name))
            return super().forward(x, edge_index, edge_attr, batch)

    model = Notes().double()
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1))
    step(next(iter(GraphLoader(molecules(16), 8, pad=True))))
    assert step.reason is None
    return seen


@pytest.mark.parametrize("name", ["highest", "high", "medium"])
def test_models_are_compared_without_tf32(name):
    torch.set_float32_matmul_precision(name)
    before = MATMUL.fp32_precision
    *compared, trained = settings_seen("fp32_precision")
    assert set(compared) == {"ieee"}
    assert trained == before == MATMUL.fp32_precision
    assert torch.get_float32_matmul_precision() == name


def test_models_may_read_the_old_setting_while_they_are_compared():
    torch.set_float32_matmul_precision("high")
    *compared, trained = settings_seen("allow_tf32")
    assert set(compared) == {False}
    assert trained is True
