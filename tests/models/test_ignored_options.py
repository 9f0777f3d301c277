import pytest

from gnnak.errors import OptionError
from gnnak.models.members import MEMBERS
from gnnak.models.options import FamilyOptions
from tests.models.zoo import FAMILY, small_network

PLAIN = ["gin", "gin-ak", "gin-ak+", "gin-ak+-s", "ppgn-ak"]
CHANGED = {
    "pairs": {"pairs": ("distance",)},
    "max_distance": {"pairs": ("distance",), "max_distance": 3},
    "num_steps": {"pairs": ("rrwp",), "num_steps": 3},
    "reduce": {"reduce": "mean"},
    "order": {"order": "SV"},
}
READERS = {
    "pairs": ("id", "nested", "ds", "dss", "sun", "sswl", "sswl+"),
    "reduce": tuple(MEMBERS),
    "order": ("sswl", "sswl+"),
}


@pytest.mark.parametrize("option", READERS)
@pytest.mark.parametrize("name", PLAIN + FAMILY)
def test_build_model_refuses_family_options_that_the_model_ignores(name, option):
    family = FamilyOptions(**CHANGED[option])
    if name.removesuffix("-gin") in READERS[option] and name in FAMILY:
        small_network(name, family=family)
        return
    sentence = rf"model\.family\.{option} is .*, but {name.replace('+', '[+]')} ignores"
    with pytest.raises(OptionError, match=sentence) as error:
        small_network(name, family=family)
    named = str(error.value).rpartition("begins with ")[2].rstrip(".")
    assert tuple(named.replace(" or ", ", ").split(", ")) == READERS[option]


@pytest.mark.parametrize("name", [*PLAIN, *FAMILY])
def test_build_model_takes_default_family_options(name):
    default = FamilyOptions(pairs=None, max_distance=5, num_steps=20, order="VS")
    small_network(name, family=default)


@pytest.mark.parametrize("option", ["max_distance", "num_steps"])
def test_build_model_refuses_the_size_of_an_encoding_that_the_input_lacks(option):
    chosen = CHANGED[option]
    small_network("sun-gin", family=FamilyOptions(**chosen))
    alone = FamilyOptions(**{option: chosen[option]})
    lacks = rf"{option} is 3, but the input of sun-gin has no encoding"
    with pytest.raises(OptionError, match=lacks):
        small_network("sun-gin", family=alone)
    if option == "max_distance":
        small_network("sswl-gin", family=alone)
    with pytest.raises(OptionError, match=f"{option} is 3, but gin ignores"):
        small_network("gin", family=alone)
