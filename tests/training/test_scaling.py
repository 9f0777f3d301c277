import torch

from gnnak.datasets.record import Scaling
from gnnak.training.losses import Scaler, target_scaling


def test_target_scaling_ignores_unknown_targets():
    y = torch.tensor([[1.0, 7.0], [3.0, torch.nan], [5.0, 7.0]])
    found = target_scaling(y)
    assert found.mean == (3.0, 7.0)
    assert found.deviation == ((8 / 3) ** 0.5, 1.0)


def test_target_scaling_of_a_target_that_is_never_known():
    nothing = target_scaling(torch.full((3, 1), torch.nan))
    assert nothing == Scaling((0.0,), (1.0,))


def test_scaler_restores_what_it_normalised():
    scaler = Scaler(Scaling((1e6, -2.0), (5e3, 0.5)))
    y = torch.tensor([[1.001e6, -3.0], [0.99e6, 0.0]], dtype=torch.double)
    assert torch.allclose(scaler.normalise(y)[0], torch.tensor([0.2, -2.0]).double())
    assert torch.allclose(scaler.restore(scaler.normalise(y)), y)
    assert not scaler.state_dict()
