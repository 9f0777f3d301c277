import pytest
import torch

from gnnak import EgoNets, RandomWalks
from gnnak.subgraphs import StructuralEncoding, WithEncodings
from gnnak.subgraphs.extractors import are_equal, describe


class Plain:
    """An object without `__eq__` and `__repr__`, like a user's extractor."""

    def __init__(self, **options: object) -> None:
        vars(self).update(options)


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


class Other(Plain):
    pass


class Callable(Plain):
    def __call__(self, edge_index, num_nodes, generator=None):
        return EgoNets(self.max_hops)(edge_index, num_nodes)


def double(value):
    return 2 * value


EQUAL = {
    "no attributes": lambda: Plain(),
    "numbers": lambda: Plain(size=2, rate=0.5, name="a", nothing=None),
    "tensors": lambda: Plain(weights=[torch.arange(5000.0)], more={"a": (1, 2)}),
    "nested": lambda: Plain(inside=Plain(inside=EgoNets(2))),
    "slots": lambda: Slotted(3),
    "function": lambda: Plain(function=double),
    "egonets": lambda: EgoNets(3),
}


@pytest.mark.parametrize("name", EQUAL)
def test_objects_of_equal_attributes_are_equal(name):
    one, other = EQUAL[name](), EQUAL[name]()
    assert are_equal(one, other)
    assert describe(one) == describe(other)
    assert " at 0x" not in describe(one)
    for another in EQUAL:
        if another != name:
            assert not are_equal(one, EQUAL[another]())
            assert describe(one) != describe(EQUAL[another]())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Plain(size=2), Plain(size=3)),
        (Plain(size=2), Plain(size=2, more=1)),
        (Plain(size=2), Other(size=2)),
        (Plain(a=torch.arange(5000)), Plain(a=torch.arange(5000).flip(0))),
        (Plain(a=torch.zeros(2)), Plain(a=torch.zeros(2).double())),
        (Slotted(2), Slotted(3)),
        (Plain(sizes=[1, 2]), Plain(sizes=[1, 2, 3])),
        (EgoNets(2), EgoNets(3)),
    ],
)
def test_objects_of_other_attributes_differ(one, other):
    assert not are_equal(one, other)
    assert describe(one) != describe(other)


def test_functions_are_equal_only_to_themselves():
    one, other = Plain(f=lambda x: x), Plain(f=lambda x: -x)
    assert not are_equal(one, other)
    assert not are_equal(Plain(a=object()), Plain(a=object()))


def test_an_object_that_refers_to_itself_has_a_description():
    one, other = Plain(), Plain()
    one.me, other.me = one, other
    assert not are_equal(one, other)
    assert describe(one) == "Plain"


def test_describe_is_the_repr_of_the_extractors_of_this_package():
    inside = WithEncodings(EgoNets(2), (StructuralEncoding("resistance"),))
    for extractor in (EgoNets(2), RandomWalks(3, 2), inside):
        assert describe(extractor) == repr(extractor)
    own = Callable(random=False, max_hops=2)
    mine = WithEncodings(own, (StructuralEncoding("resistance"),))
    wanted = "WithEncodings(extractor=Callable(random=False, max_hops=2), encodings="
    assert describe(mine).startswith(wanted)
