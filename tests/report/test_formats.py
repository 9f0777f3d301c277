from gnnak.report.formats import _tex, as_csv, latex, markdown, text
from gnnak.report.tables import LEGEND, SHORTENED
from tests.report.hand_records import run_record
from tests.report.small_table import GOOD, IMAGES, SMALL, fill_table, records

WORSE = f"▼ GIN / ZINC (MAE): {SHORTENED}"

FILLED = fill_table(SMALL, records())


def test_markdown_has_our_numbers_and_the_papers_and_blanks_without_both():
    assert markdown(FILLED) == (
        "**A & B**\n"
        "\n"
        "|  | ZINC (MAE) | CIFAR10 (ACC) |\n"
        "| --- | ---: | ---: |\n"
        "| GIN | 0.250† ▼ (0.163 ± 0.004) | (59.82) |\n"
        "| GIN-AK+ | 0.082 ± 0.001 ≈ (0.080) |  |\n"
        "\n"
        "- † trained for 30 of 310 epochs; 1 of 2 seeds.\n"
        f"- {LEGEND}\n"
        f"- {WORSE}\n"
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
        "GIN & 0.250$^{\\dagger}$ $\\blacktriangledown$ (0.163 $\\pm$ 0.004) & "
        "(59.82) \\\\\n"
        "GIN-AK+ & 0.082 $\\pm$ 0.001 $\\approx$ (0.080) &  \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\footnotesize $^{\\dagger}$ "
        "trained for 30 of 310 epochs; 1 of 2 seeds.\n"
        f"\\par\\footnotesize {_tex(LEGEND)}\n"
        f"\\par\\footnotesize {_tex(WORSE)}\n"
        "\\par\\footnotesize A note, 100\\% true.\n"
        "\\end{table}"
    )


def test_csv_has_one_line_a_cell_with_the_numbers_as_recorded():
    lines = as_csv(fill_table(SMALL, records(run_record(IMAGES, test=0.75))))
    assert lines.splitlines() == [
        "row,column,mean,deviation,runs,ours,paper,verdict,note",
        "GIN,ZINC (MAE),0.25,,1,0.250,0.163 ± 0.004,worse,"
        "trained for 30 of 310 epochs; 1 of 2 seeds",
        "GIN,CIFAR10 (ACC),,,0,,59.82,,",
        "GIN-AK+,ZINC (MAE),0.082,0.0014142135623730963,2,0.082 ± 0.001,0.080,within,",
        "GIN-AK+,CIFAR10 (ACC),0.75,,1,75.00%,,,1 of 2 seeds",
    ]


def test_text_is_aligned():
    assert text(FILLED) == (
        "A & B\n"
        "\n"
        "                       ZINC (MAE)  CIFAR10 (ACC)\n"
        "GIN      0.250† ▼ (0.163 ± 0.004)        (59.82)\n"
        "GIN-AK+   0.082 ± 0.001 ≈ (0.080)\n"
        "\n"
        "† trained for 30 of 310 epochs; 1 of 2 seeds.\n"
        f"{LEGEND}\n"
        f"{WORSE}\n"
        "A note, 100% true."
    )


def test_text_breaks_into_blocks_where_the_screen_is_narrow():
    assert text(FILLED, width=40).split("\n\n")[1:3] == [
        "                       ZINC (MAE)\n"
        "GIN      0.250† ▼ (0.163 ± 0.004)\n"
        "GIN-AK+   0.082 ± 0.001 ≈ (0.080)",
        "         CIFAR10 (ACC)\nGIN            (59.82)\nGIN-AK+",
    ]


def test_footnotes_have_a_sign_for_each_sentence():
    filled = fill_table(SMALL, records(run_record(IMAGES, test=0.75)))
    assert filled.footnotes == (
        ("†", "trained for 30 of 310 epochs; 1 of 2 seeds"),
        ("‡", "1 of 2 seeds"),
    )
    assert filled.rows[1][1].text == "75.00%‡"
    assert filled.rows[1][0].cell.config == GOOD
