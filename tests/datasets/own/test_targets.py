import pytest
import torch

from gnnak.datasets.own.targets import are_like_classes, encode_targets, tell_task
from gnnak.errors import GraphError, OptionError


@pytest.mark.parametrize(
    ("columns", "task"),
    [
        ([["1.5", "2"]], "regression"),
        ([["0", "1", "1"]], "classification"),
        ([["0.0", "1.0", None]], "classification"),
        ([["0", "1", "2", "3"] * 2], "classification"),
        ([["0", "1", "2", "3", "0"]], "regression"),
        ([["0.0", "1.0", "2.0"]], "regression"),
        ([["1", "2", "3"]], "regression"),
        ([["red", "blue"]], "classification"),
        ([["true", "false"]], "classification"),
        ([["yes"]], "classification"),
        ([["1.5", "2.5", "oops"]], "regression"),
        ([[str(i) for i in range(21)]], "regression"),
        ([[None, None]], "regression"),
        ([["0", "1"], ["1", None]], "multilabel"),
        ([["0", "1"], ["1", "2"]], "regression"),
    ],
)
def test_tell_task_by_hand(columns, task):
    assert tell_task(columns) == task


def test_encode_targets_regression_with_missing_values():
    found = encode_targets([("a", ["1", "", "x"]), ("b", [2, "NaN", 5.5])])
    assert (found.task, found.names, found.num_outputs) == ("regression", ("a", "b"), 2)
    assert found.y[0].tolist() == [1, 2]
    assert [str(row) for row in found.bad] == [
        "row 2: all targets are empty",
        "row 3: a is 'x', not a finite number",
    ]


@pytest.mark.parametrize("value", ["inf", "1e300", "-inf", float("inf")])
def test_encode_targets_refuses_infinite_numbers(value):
    (bad,) = encode_targets([("a", ["1.5", value])]).bad
    assert bad.number == 2


def test_encode_targets_classes_sort_as_numbers_or_words():
    found = encode_targets([("kind", ["10", "9.0", "10"])], "classification")
    assert found.classes == ("9", "10")
    assert found.y.tolist() == [1, 0, 1]
    found = encode_targets([("kind", ["b", None, "a"])])
    assert (found.classes, found.y.dtype) == (("a", "b"), torch.long)
    assert [row.number for row in found.bad] == [2]


def test_encode_targets_labels_are_0_and_1():
    found = encode_targets([("a", ["0", "2"]), ("b", ["1", ""])], "multilabel")
    assert found.y[0].tolist() == [0, 1]
    assert [str(row) for row in found.bad] == ["row 2: a is '2', not 0 or 1"]


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ([], None, "there is no target"),
        ([("a", ["x"]), ("b", ["y"])], "classification", "one target, got 2"),
        (
            [("a", [1, 2, 3]), ("b", ["x", "", "y"])],
            None,
            "^b has text such as 'x', but a has numbers; targets of one run must be of "
            "one kind, .*: leave out b, or train another run with b as the only target",
        ),
        ([("a", ["x", "x", "z"]), ("b", ["y"] * 3)], None, "one target, got 2: a, b; "),
        ([("a", ["x"] * 3)], "classification", "a is x in all 3 rows, so there is"),
        ([("a", [1.5, "1.50", 1.5, ""])], None, "a is 1.5 in all 3 rows"),
        ([("a", [4, 4, 4]), ("b", [5, 5, 5])], None, "a is 4.0 in all 3 rows"),
        ([("a", [1.1] * 3)], None, "a is 1.1 in all 3 rows"),
        ([("a", [1e-50, 2e-50, 3e-50])], None, "a are equal in single precision"),
        ([("a", "111"), ("b", "000")], None, "a is 1.0 in all 3 rows"),
        ([("a", ["x", "y", "z"])], None, "a different value in each of the 3 rows"),
        ([("a", ["Hit", "hit", "no"])], None, "'Hit' and 'hit', which differ in upper"),
        (
            [("a", [None, "31.12.2024", "2024-01-31 10:00"] * 2)],
            None,
            "^a is '31.12.2024' in row 2, a date; write dates as numbers, for example",
        ),
        ([("a", ["1/5/24", "5 Jan 2024"])], None, "a is '1/5/24' in row 1, a date"),
        (
            [("a", ["?", "low", "3 %", "4,5%", "4%", "3 %"])],
            None,
            "^a is '3 %' in row 3, not a number; write numbers without units, with a",
        ),
        ([("a", ["1,000.5", "2,000", "2,000"])], None, "numbers without units"),
        ([("a", [f"w{n}" for n in range(30)])], None, "30 different words in 30 rows"),
        ([("a", ["1,5", "2,5", "1,5"])], None, "decimal point"),
        ([("a", ["1.5 mg/L", "2.5 mg/L"])], None, "numbers without units"),
    ],
)
def test_encode_targets_wrong_input_is_a_sentence(columns, task, message):
    with pytest.raises((OptionError, GraphError), match=message):
        encode_targets(columns, task)


def test_encode_targets_words_that_are_asked_for_are_classes():
    words = [f"w{number}" for number in range(30)] * 2
    assert len(encode_targets([("a", words)], "classification").classes) == 30
    numbers = [("ec", ["1.1.1.1", "1.1.1.27", "2.7.1.1"] * 2)]
    assert encode_targets(numbers).task == "classification"
    spellings = [("a", ["Hit", "hit"] * 2)]
    assert encode_targets(spellings, "classification").classes == ("Hit", "hit")


def test_encode_targets_truth_values_are_two_classes_in_any_spelling():
    found = encode_targets([("a", ["TRUE", "False", "true", "FALSE"])])
    assert (found.classes, found.y.tolist()) == (("false", "true"), [1, 0, 1, 0])
    assert encode_targets([("a", [True, False] * 2)]).classes == ("False", "True")


def test_encode_targets_each_row_may_have_its_own_class_if_classes_are_asked_for():
    found = encode_targets([("a", ["x", "y", "z"])], "classification")
    assert found.y.tolist() == [0, 1, 2]


def test_encode_targets_constant_numbers_beside_others_or_asked_for_are_allowed():
    found = encode_targets([("a", [1, 2, 3]), ("b", [5, 5, 5])])
    assert found.y[:, 1].tolist() == [5, 5, 5]
    assert encode_targets([("a", [1] * 3)], "regression").y.tolist() == [[1]] * 3


def test_encode_targets_a_constant_label_beside_others_is_allowed():
    found = encode_targets([("a", "1111"), ("b", "0101")])
    assert (found.task, found.bad) == ("multilabel", ())


def test_encode_targets_names_the_row_of_the_users_data():
    values = [("a", ["3 %", "4 %"])]
    with pytest.raises(GraphError, match="a is '3 %' in row 7"):
        encode_targets(values, numbers=[7, 9])


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2, 3, 3], True),
        ([0, 1, 3, 3, float("nan")], True),
        ([0, 20, 20], True),
        ([-1, 1, 1], True),
        ([1, 2, 3], False),
        ([2, 2, 2], False),
        ([1, 2, 2.5, 2], False),
        ([-1, 2, 2], False),
        ([1, 21, 21], False),
        ([float("nan")], False),
        ([], False),
    ],
)
def test_are_like_classes_by_hand(values, wanted):
    assert are_like_classes(torch.tensor(values, dtype=torch.float)) == wanted


def test_codes_with_letters_are_no_dates():
    codes = ["12-abc-34", "13-xyz-35"] * 2
    assert encode_targets([("a", codes)]).task == "classification"
