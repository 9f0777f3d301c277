from dataclasses import replace

import pytest

from gnnak.report.cells import Cell, Style, load_table, read_once, table_names
from gnnak.report.formats import _tex, as_csv, latex, markdown, text
from gnnak.report.tables import (
    KNOWN,
    LEGEND,
    _letters,
    compare,
    measure_dataset,
    parse_number,
    pending_runs,
    reason_of,
    remarks_on,
    unmeasured,
)
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change, parse_settings
from gnnak.training.records.lookup import (
    STATISTICS,
    RunRecords,
    Summary,
    read_statistics,
)
from tests.report.hand_records import run_record, write_records
from tests.report.small_table import (
    GOOD,
    IMAGES,
    POOR,
    SMALL,
    fill_table,
    plan,
    records,
)


def verdict(paper, ours, lower=True, percent=False):
    cell = Cell("GIN", "ZINC", paper, Style(3, percent))
    return compare(cell, Summary(ours, None, 1, lower_is_better=lower))


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(0.0779, "better"), (0.078, "within"), (0.082, "within"), (0.0821, "worse")],
)
def test_two_deviations_agree_where_the_paper_gives_one(ours, expected):
    assert verdict("0.080 ± 0.001", ours) == expected


@pytest.mark.parametrize(
    ("ours", "expected"), [(0.51, "worse"), (0.5701, "within"), (0.64, "better")]
)
def test_five_percent_agree_where_the_paper_gives_no_deviation(ours, expected):
    assert verdict("60.00%", ours, lower=False, percent=True) == expected


def test_a_deviation_of_zero_leaves_half_a_unit_of_the_last_digit():
    assert verdict("0.082 ± 0.000", 0.0824) == "within"
    assert verdict("0.082 ± 0.000", 0.0826) == "worse"


def test_negative_numbers_are_compared_by_size():
    assert verdict("-2.0000", -2.05) == "within"
    assert verdict("-2.0000", -2.2) == "better"
    assert verdict("-2.0000", -1.8) == "worse"


def test_a_cell_without_the_papers_number_has_no_verdict():
    assert verdict(None, 0.1) is None
    assert verdict("OOM", 0.1) == "oom"


@pytest.mark.parametrize("name", table_names())
def test_all_numbers_of_the_paper_can_be_read(name):
    cells = [cell for row in load_table(name).rows for cell in row]
    texts = {cell.paper for cell in cells if cell.plan and cell.paper}
    unread = {text for text in texts if parse_number(text) is None}
    assert unread <= {"OOM"}


def test_an_undefined_score_has_no_verdict():
    assert verdict("0.080 ± 0.001", None) is None
    assert verdict("OOM", None) is None


ERROR = Cell("GIN", "Star (MAE)", "0.10", Style(2))
LABEL = Cell("GIN", "Connected, legacy label (log10 MSE)", "-2.00", Style(2))


def runs(*values, lower_is_better=True):
    mean = sum(values) / len(values)
    return Summary(mean, None, len(values), "", lower_is_better, values)


@pytest.mark.parametrize("ours", [runs(0.1), runs(0.05), Summary(None, None, 0)])
def test_a_cell_that_is_not_worse_has_no_reason(ours):
    assert reason_of(ERROR, ours) is None
    assert remarks_on([(ERROR, ours)]) == []


def test_runs_that_differ_are_shown_if_one_of_them_agrees_with_the_paper():
    reason = reason_of(ERROR, runs(0.2, 0.101))
    assert reason is not None
    assert "(0.20, 0.10)" in reason


def test_folds_differ_anyway_so_one_that_agrees_is_no_reason():
    folds = replace(ERROR, plan=replace(plan(GOOD), folds=2))
    assert reason_of(folds, runs(0.2, 0.101)) is None


def test_runs_that_are_all_worse_have_no_reason_unless_one_is_known():
    assert reason_of(ERROR, runs(0.2, 0.12)) is None
    assert remarks_on([(ERROR, runs(0.2))]) == []
    known = reason_of(LABEL, runs(-1.0))
    assert known == read_once(KNOWN)["Connected, legacy label"]


def test_runs_with_fewer_epochs_than_the_papers_are_not_compared():
    short = replace(runs(0.2), shortened=True)
    assert compare(ERROR, short) is None
    assert reason_of(ERROR, short) is None


def test_scores_that_are_to_be_high_are_compared_that_way():
    accuracy = Cell("GIN", "EXP (ACC)", "90", Style(0, percent=True))
    ours = runs(0.5, 0.9, lower_is_better=False)
    assert "(50, 90)" in (reason_of(accuracy, ours) or "")


def test_numbers_may_also_differ_by_the_noise_of_generated_test_graphs():
    pattern = Cell("GIN", "PATTERN (ACC)", "86.85 ± 0.03", Style(2, percent=True))
    ours = runs(0.867, lower_is_better=False)
    assert compare(pattern, ours) == "worse"
    assert compare(pattern, replace(ours, noise=0.0006)) == "worse"
    assert compare(pattern, replace(ours, noise=0.0007)) == "within"


def test_the_noise_of_generated_test_graphs_is_a_footnote():
    about = {"kind": "data-noise", "experiment": "zinc", "target": None}
    noise = [
        about | {"model": model, "deviation": value}
        for model, value in (("gin", 0.002), ("gcn", 0.004), ("gcn", 0.006))
    ]
    known = records(run_record(GOOD, 0))
    both = RunRecords([*known.records, *noise])
    assert both.data_noise(GOOD) == pytest.approx(0.004)
    assert both.data_noise(change(GOOD, {"model.name": "gcn"})) == pytest.approx(0.005)
    assert known.data_noise(GOOD) == 0.0
    filled = fill_table(SMALL, both)
    assert any("a deviation of 0.004 between" in note for note in filled.remarks)


def test_a_remark_names_all_cells_of_its_reason():
    other = Cell("SAGE", LABEL.column, "-2.00", Style(2))
    worse = [(ERROR, runs(0.2)), (LABEL, runs(-1.0)), (other, runs(-1.0))]
    (remark,) = remarks_on(worse)
    assert remark.startswith(f"▼ {LABEL.title}; {other.title}: ")


def test_a_table_counts_cells_and_shows_reasons_below():
    unlucky = run_record(GOOD, 1, test=0.2)
    filled = fill_table(SMALL, records(unlucky))
    counts = filled.counts
    compared = counts.better + counts.within + counts.worse
    assert counts.run == compared + counts.oom + counts.new
    assert any("(0.081, 0.200)" in remark for remark in filled.remarks)


def test_every_reason_belongs_to_a_cell_of_a_table():
    tables = [load_table(name) for name in table_names()]
    titles = [c.title for table in tables for row in table.rows for c in row]
    for words in read_once(KNOWN):
        assert any(words in title for title in titles), words


NONE = RunRecords([])


def test_pending_runs_are_those_without_a_record_of_just_their_settings():
    runs = pending_runs(SMALL, records(run_record(IMAGES, 1)))
    assert [(run.config, run.title) for run in runs] == [
        (change(POOR, {"train.seed": 1}), "GIN / ZINC (MAE), seed 1"),
        (IMAGES, "GIN-AK+ / CIFAR10 (ACC), seed 0"),
    ]


def test_pending_runs_can_be_fewer_or_more():
    assert len(pending_runs(SMALL, NONE)) == 6
    assert len(pending_runs(SMALL, NONE, seeds=1)) == 3
    assert len(pending_runs(SMALL, NONE, only=["cifar"])) == 2
    more = pending_runs(SMALL, records(), seeds=3, only=["gin-ak+ / zinc"])
    assert [run.config for run in more] == [change(GOOD, {"train.seed": 2})]


def test_shortened_runs_are_pending_unless_a_longer_run_has_a_record():
    runs = pending_runs(SMALL.shortened(2), records(), seeds=1)
    lengths = {"train.epochs": 155, "train.step": 25}
    assert [run.config for run in runs] == [change(IMAGES, lengths)]
    done = records(*(run_record(run.config) for run in runs))
    assert pending_runs(SMALL.shortened(2), done, seeds=1) == []
    assert pending_runs(SMALL.shortened(3), done, seeds=1) == []
    assert len(pending_runs(SMALL.shortened(1.5), done, seeds=1)) == 1


def test_runs_with_another_schedule_are_pending():
    often = SMALL.changed({"train.step": 5, "train.epochs": 100})
    assert len(pending_runs(often, records(), seeds=1)) == 3


def test_pending_runs_go_over_folds():
    runs = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"])
    assert [run.config.data.fold for run in runs] == list(range(10))
    assert runs[3].title == "GIN-AK+ / MUTAG (ACC), seed 0, fold 3"


def test_pending_runs_can_be_limited_to_the_first_folds():
    runs = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"], folds=2)
    assert [run.config.data.fold for run in runs] == [0, 1]
    many = pending_runs(load_table("tu"), NONE, only=["gin-ak+ / mutag"], folds=99)
    assert len(many) == 10
    assert len(pending_runs(SMALL, NONE, folds=1)) == 6  # these tables have no folds


def test_settings_lead_from_the_experiment_to_the_run():
    names = ("simulation", "real-world", "ppgn-sr25", "tu")
    for name in names:
        for run in pending_runs(load_table(name), NONE, seeds=2)[1::7]:
            start = load_experiment(run.experiment)
            settings = parse_settings(start.settings(run.config))
            assert change(start.config, settings) == run.config


MUTAG = {"graphs": "188", "nodes": 17.93, "edges": 19.79, "outputs": 2}


def test_measure_dataset_appends_its_description(tmp_path):
    record = measure_dataset("csl", tmp_path)
    assert read_statistics(tmp_path)["csl"] == record
    assert (record["graphs"], record["nodes"], record["edges"]) == ("150", 41.0, 164.0)


def test_measure_dataset_does_not_count_stand_in_targets(tmp_path, data_dir):
    assert measure_dataset("counting", tmp_path)["outputs"] == 4


def test_statistics_are_printed_with_the_papers(tmp_path):
    old = MUTAG | {"kind": "dataset", "name": "mutag", "nodes": 0.0}
    new = MUTAG | {"kind": "dataset", "name": "mutag"}
    known = read_statistics(write_records(tmp_path, [old, new], STATISTICS))
    table = load_table("datasets")
    assert "mutag" not in unmeasured(table, known)
    assert unmeasured(table, known)[:2] == ["exp", "sr25"]
    filled = fill_table(table, RunRecords([]), known)
    row = next(row for row in filled.body if row[0] == "MUTAG")
    assert row == ["MUTAG", "2 (2)", "188 (188)", "17.93 (17.93)", "19.79 (19.79)"]
    assert filled.body[0][2] == "(1200)"


FILLED = fill_table(SMALL, records())


def test_markdown_has_our_numbers_and_the_papers_and_blanks_without_both():
    assert markdown(FILLED) == (
        "**A & B**\n"
        "\n"
        "|  | ZINC (MAE) | CIFAR10 (ACC) |\n"
        "| --- | ---: | ---: |\n"
        "| GIN | 0.250 [a] ▼ (0.163 ± 0.004) | (59.82) |\n"
        "| GIN-AK+ | 0.082 ± 0.001 ≈ (0.080) |  |\n"
        "\n"
        "- [a] 1 of 2 seeds.\n"
        f"- {LEGEND}\n"
        "- A note, 100% true."
    )


def test_latex_is_escaped():
    assert latex(FILLED) == (
        "\\begin{table}\n"
        "\\caption{A \\& B}\n"
        "\\label{tab:small}\n"
        "\\begin{tabular}{lrr}\n"
        "\\toprule\n"
        " & ZINC (MAE) & CIFAR10 (ACC) \\\\\n"
        "\\midrule\n"
        "GIN & 0.250 [a] $\\blacktriangledown$ (0.163 $\\pm$ 0.004) & "
        "(59.82) \\\\\n"
        "GIN-AK+ & 0.082 $\\pm$ 0.001 $\\approx$ (0.080) &  \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\footnotesize [a] 1 of 2 seeds.\n"
        f"\\par\\footnotesize {_tex(LEGEND)}\n"
        "\\par\\footnotesize A note, 100\\% true.\n"
        "\\end{table}"
    )


def test_csv_has_one_line_a_cell_with_the_numbers_as_recorded():
    lines = as_csv(fill_table(SMALL, records(run_record(IMAGES, test=0.75))))
    assert lines.splitlines() == [
        "row,column,mean,deviation,runs,ours,paper,verdict,note",
        "GIN,ZINC (MAE),0.25,,1,0.250,0.163 ± 0.004,worse,1 of 2 seeds",
        "GIN,CIFAR10 (ACC),,,0,,59.82,,",
        "GIN-AK+,ZINC (MAE),0.082,0.0014142135623730963,2,0.082 ± 0.001,0.080,within,",
        "GIN-AK+,CIFAR10 (ACC),0.75,,1,75.00%,,,1 of 2 seeds",
    ]


def test_text_is_aligned():
    assert text(FILLED) == (
        "A & B\n"
        "\n"
        "                          ZINC (MAE)  CIFAR10 (ACC)\n"
        "GIN      0.250 [a] ▼ (0.163 ± 0.004)        (59.82)\n"
        "GIN-AK+      0.082 ± 0.001 ≈ (0.080)\n"
        "\n"
        "[a] 1 of 2 seeds.\n"
        f"{LEGEND}\n"
        "A note, 100% true."
    )


def test_text_breaks_into_blocks_where_the_screen_is_narrow():
    assert text(FILLED, width=40).split("\n\n")[1:3] == [
        "                          ZINC (MAE)\n"
        "GIN      0.250 [a] ▼ (0.163 ± 0.004)\n"
        "GIN-AK+      0.082 ± 0.001 ≈ (0.080)",
        "         CIFAR10 (ACC)\nGIN            (59.82)\nGIN-AK+",
    ]


def test_footnotes_have_a_letter_for_each_sentence():
    short = SMALL.changed({"train.epochs": 30})
    given = [run_record(change(each, {"train.epochs": 30})) for each in (POOR, IMAGES)]
    undefined = run_record(change(GOOD, {"train.epochs": 30}), test=None)
    filled = fill_table(short, records(*given, undefined))
    assert filled.footnotes == (
        ("a", "trained for 30 of 310 epochs; 1 of 2 seeds"),
        (
            "b",
            "the test score is undefined in 1 of 1 runs; trained for 30 of 310 epochs; "
            "1 of 2 seeds",
        ),
    )
    assert filled.rows[1][0].mark == "b"
    assert [_letters(place) for place in (0, 25, 26, 27, 52, 702)] == [
        *("a", "z", "aa", "ab", "ba", "aaa")
    ]
