"""Decimal commas of tables that are separated by semicolons."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnak.datasets.own import OwnData, load_own
from gnnak.datasets.own.which import NUMBER, as_points
from gnnak.errors import GnnakError, GraphError

SMILES = ["C" * n for n in range(1, 11)]
VALUES = [n / 4 - 1 for n in range(10)]
COMMAS = [str(value).replace(".", ",") for value in VALUES]


def table(targets, delimiter=";", names=("smiles", "y"), smiles=SMILES):
    """Return a table of molecules as text."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(names)
    writer.writerows(zip(smiles, *targets, strict=True))
    return text.getvalue()


@pytest.mark.parametrize(
    ("text", "notation"),
    [
        *[(text, "comma") for text in ("1,5", "-0,25", "+,5", "1,5e-3", "1,234")],
        *[(text, "point") for text in ("1.5", "-.5", "1.", "2.5E+10", "1.234")],
        *[(text, "whole") for text in ("3", "-12", "1e5")],
        *[(text, "grouped") for text in ("1.234,5", "1,234.5", "-1.234.567,89")],
        *[(text, "grouped") for text in ("1.234.567", "1,234,567", "12,34,567.8")],
        *[(text, "grouped") for text in ("1 234,5", "1\u00a0234", "1'234.5")],
        *[(text, None) for text in ("", "a", "1,2-x", "1,2,3", "31.12.2024", "1;5")],
    ],
)
def test_numbers_are_told_by_their_notation(text, notation):
    found = NUMBER.fullmatch(text)
    assert (found and found.lastgroup) == notation


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_as_points_restores_numbers_written_with_decimal_commas(numbers):
    texts = [repr(number).replace(".", ",") for number in numbers]
    assert [float(text) for text in as_points("y", texts, "m.csv")] == numbers


def test_as_points_leaves_words_and_other_notations_alone():
    words = ["1,2", "1.2", "high", "low", "medium"]
    assert as_points("y", words, "m.csv") == words
    points = ["1.5", "2", ""]
    assert as_points("y", points, "m.csv") is points
    mixed = ["1,5", "1.5", "1.234,5"]
    assert as_points("y", mixed, "m.csv", "classification") == mixed
    assert as_points("y", ["1,0", "2,0"], "m.csv", "classification") == ["1.0", "2.0"]
    few = ["1,5", "oops", "what"]
    assert as_points("y", few, "m.csv", "regression") == ["1.5", "oops", "what"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["3", "1,5", "", "1.5"], "y is '1,5' in row 2 and '1.5' in row 4; write all"),
        (["1,5", "1.234,5"], "y is '1.234,5' in row 2, a number with a thousands sep"),
        (["1.5", "1,234.5"], "y is '1,234.5' in row 2, a number with a thousands sep"),
        (["12", "1 234"], "y is '1 234' in row 2, a number with a thousands separat"),
    ],
)
def test_as_points_refuses_several_notations_in_a_sentence(texts, message):
    with pytest.raises(GraphError) as caught:
        as_points("y", texts, "m.csv")
    assert str(caught.value).startswith(f"m.csv: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (
            ["987", "1.234", "12.500"],
            "y is '1.234' in row 2, which is read as 1.234 and",
        ),
        (
            ["1,234", "5", ""],
            "y is '1,234' in row 1, which is read as 1.234 and not as",
        ),
        (["1,234", "2,500"], ""),
        (["0,234", "2,500", "1"], ""),
        (["1,234", "2,5", "1"], ""),
        (["1", "2"], ""),
    ],
)
def test_as_points_warns_of_numbers_that_may_have_thousands_separators(
    caplog, texts, told
):
    with caplog.at_level("WARNING", logger="gnnak"):
        found = as_points("y", texts, "m.csv")
    assert found == [text.replace(",", ".") for text in texts]
    assert bool(caplog.messages) == bool(told)
    assert all(told in message for message in caplog.messages)


@pytest.mark.parametrize("start", ["", "\ufeff", "sep=;\n"], ids=["", "mark", "sep"])
def test_load_own_reads_decimal_commas_of_a_table_with_semicolons(write, start):
    found = load_own(OwnData(write(start + table([COMMAS]))))
    assert found.dataset.info.task == "regression"
    assert found.dataset.store.y.tolist() == VALUES


def test_load_own_finds_the_column_of_numbers_with_decimal_commas(write):
    names = [f"m{n},5" for n in range(10)]
    text = table([names, COMMAS], names=("smiles", "name", "logp"))
    assert load_own(OwnData(write(text))).dataset.info.targets == ("logp",)


def test_load_own_reads_several_targets_and_unknown_ones(write):
    text = table([COMMAS, ["", *COMMAS[1:]]], names=("smiles", "a", "b"))
    y = load_own(OwnData(write(text), targets=("a", "b"))).dataset.store.y
    assert y[:, 0].tolist() == VALUES
    assert y[0, 1].isnan()
    assert y[1:, 1].tolist() == VALUES[1:]


def test_load_own_refuses_a_mixed_target_but_not_a_mixed_other_column(write):
    mixed = ["1.5", *COMMAS[1:]]
    path = write(table([COMMAS, mixed], names=("smiles", "a", "b")))
    assert load_own(OwnData(path, targets=("a",))).dataset.store.y.tolist() == VALUES
    for targets in (("b",), ("a", "b")):
        with pytest.raises(GnnakError, match=r"m\.csv: b is '-0,75' in row 2 and '1"):
            load_own(OwnData(path, targets=targets, skip_bad=True))
    classes = load_own(OwnData(path, targets=("b",), task="classification"))
    assert "-0,75" in classes.dataset.info.classes


def test_load_own_reads_whole_numbers_with_decimal_commas_as_classes(write):
    found = load_own(OwnData(write(table([["0,0", "1,0"] * 5]))))
    info = found.dataset.info
    assert (info.task, info.classes) == ("classification", ("0", "1"))


def test_load_own_reads_labels_with_decimal_commas(write):
    graphs = write("\n".join(SMILES), "m.smi")
    labels = table([COMMAS], names=("id", "y"), smiles=range(10))
    found = load_own(OwnData(graphs, labels=write(labels, "labels.csv")))
    assert found.dataset.info.targets == ("y",)
    assert found.dataset.store.y.tolist() == VALUES


def test_load_own_reads_each_file_with_its_own_decimal_mark(write):
    train = write(table([COMMAS]), "train.csv")
    other = write(table([list(map(str, VALUES))], ","), "other.csv")
    y = load_own(OwnData(train, validation=other)).dataset.store.y
    assert y.tolist() == VALUES + VALUES


def test_load_own_refuses_decimal_commas_of_a_table_with_commas(write):
    with pytest.raises(GnnakError, match="with a decimal point"):
        load_own(OwnData(write(table([COMMAS], ","))))


def test_load_own_refuses_a_column_of_decimal_commas_as_smiles(write):
    with pytest.raises(
        GnnakError, match=r"column y of m\.csv has numbers, such as -1,0"
    ):
        load_own(OwnData(write(table([COMMAS])), smiles="y"))
