import pytest

from gnnak.errors import OptionError
from gnnak.graphs.families import csl
from gnnak.wl.families import classes


def test_csl_graphs_are_pairwise_unlike():
    assert len(set(classes(csl()))) == 10
    with pytest.raises(OptionError, match="skip is 40"):
        csl(41, [40])
