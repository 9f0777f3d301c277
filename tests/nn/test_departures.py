import pytest

from gnnak import PAPER, PUBLISHED, Departures
from gnnak.errors import OptionError


def test_departures_of_the_paper_are_none():
    assert Departures(mlp_layers=0, gate_centroid=False, dropout=0.0) == PAPER
    assert Departures(mlp_layers=1, gate_centroid=True, dropout=0.0) == PUBLISHED


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"mlp_layers": -1}, "mlp_layers is -1; give a whole number"),
        ({"mlp_layers": 1.5}, "mlp_layers is 1.5; give a whole number"),
        ({"dropout": 1.0}, "dropout is 1.0; give a number with 0 <= dropout < 1"),
        ({"dropout": -0.1}, "dropout is -0.1; give a number"),
        ({"dropout": "half"}, "dropout is 'half'; give a number"),
        ({"dropout": float("nan")}, "dropout is nan; give a number"),
    ],
)
def test_departures_answers_a_wrong_option_in_a_sentence(options, wanted):
    with pytest.raises(OptionError, match=wanted):
        Departures(**options)
