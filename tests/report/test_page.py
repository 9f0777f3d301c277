"""The user's runs, grouped by task and setting."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gnnak.report.page import (
    FEW,
    cost_rows,
    group_tasks,
    growth_figures,
    report_page,
    write_report,
)
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import REQUIRED, Record
from tests.report.hand_records import run_record, write_records

EVIL = "<script>alert('&')</script>"
VOID = ("meta", "link", "br")
SECTIONS = ("your-runs", "tables", "subgraphs")
"""The sections of a page without records: the others have no content."""


BENCH = {
    "kind": "bench",
    "config": RunConfig().to_dict(),
    "device": "abacus",
    "fast": True,
    "seconds": {"epoch": 0.25},
    "peak_memory_mb": 1234.5,
    "graphs_per_second": 40_000.0,
}
GROWTH = [
    BENCH | {"kind": "growth", "what": what, "value": value, "peak_memory_mb": memory}
    for what in ("nodes", "hops")
    for value, memory in ((1, 10.0), (2, None))
]


def drop_record(kept: int) -> Record:
    return {
        "case": "molecules",
        "device": "abacus",
        "strategy": "random",
        "min_coverage": kept,
        "share": kept / 5,
        "step_seconds": {"drop": 0.1 * kept, "full": 0.5},
        "step_mb": {"drop": 10.0 * kept, "full": 60.0},
    }


def quality_record(drop: str | None, error: float) -> Record:
    name = "gin-ak+" if drop is None else "gin-ak+-s"
    record = {"target": "star", "model": name, "epochs": 9, "seed": 0}
    return record | {"drop": drop, "test_mae": error}


def write_results(folder: Path) -> None:
    """Write records of every kind, some with HTML in their texts."""
    seeds = {0: 0.25, 1: 1.25}
    runs = [run_record(RunConfig(), k, test=seeds[k], device=EVIL) for k in seeds]
    write_records(folder, runs)
    write_records(folder, map(drop_record, (1, 2, 3)), "subgraph_drop.jsonl")
    quality = [quality_record(None, 0.1), quality_record("few", 0.15)]
    write_records(folder, quality, "drop_quality.jsonl")
    write_records(folder, [BENCH, *GROWTH], "bench.jsonl")
    extraction = [{"case": EVIL, "seconds": {"gnnak": 0.1, "pyg": 1.0}}]
    write_records(folder, extraction, "extraction.jsonl")


@pytest.fixture
def results(tmp_path) -> Path:
    write_results(tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """Write the page of such a folder, for tests that read it only."""
    folder = tmp_path_factory.mktemp("results")
    write_results(folder)
    out = tmp_path_factory.mktemp("page") / "new" / "report.html"
    write_report(folder, out)
    return out


class Checker(HTMLParser):
    """Collects tags and ids of a page; fails if its elements are not nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.labels = 0

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        named = dict(attrs)
        if "id" in named:
            self.ids.append(named["id"])
        self.labels += tag == "svg" and bool(named.get("aria-label"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_page_is_whole_labelled_and_asks_for_nothing(written):
    page = written.read_text()
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.seen.count("h1") == checker.seen.count("title") == 1
    assert checker.seen.count("svg") == checker.labels == 6
    assert len(set(checker.ids)) == len(checker.ids)
    assert "script" not in checker.seen
    links = set(re.findall(r'href="#([^"]*)"', page)) - {""}
    assert links <= set(checker.ids)
    sources = re.findall(r'(?:src|href)="(?!#|data:)[^"]*"|url\((?!#)|@import', page)
    assert sources == []


@pytest.mark.heavy
def test_report_page_begins_with_own_runs_then_the_papers_tables(results):
    parts = ["Your runs</h2>", "solubility: logp", "paper&#39;s tables</h2>"]
    own = change(
        RunConfig(),
        {
            "data.name": "solubility",
            "data.own.path": "solubility.csv",
            "data.own.targets": ["logp"],
        },
    )
    rates = [change(own, {"train.learning_rate": rate}) for rate in (0.1, 0.2)]
    more = [run_record(rates[0], seed, test=0.5 + seed) for seed in (0, 1)]
    write_records(results, [*more, run_record(rates[1], test=0.125)])
    page = report_page(results)
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    rows = re.findall(r'<tr><th scope="row">gin-ak\+(.*?)</tr>', page)
    assert rows[0].startswith(", learning_rate=0.2</th><td>0.125</td><td>0.125</td>")
    assert rows[1].startswith(", learning_rate=0.1</th><td>1</td><td>1 ± 0.71</td>")
    assert "<td>18 s</td><td>1,234</td><td>2</td>" in rows[1]
    assert "5 runs of your own" in page
    assert "Cost of training, solubility: logp: gin-ak+, learning_rate=0.2" in page


@pytest.mark.heavy
def test_report_page_names_only_options_that_are_set(results):
    own = change(RunConfig(), {"data.name": "own", "data.own.path": "own.csv"})
    few = change(own, {"data.own.graphs": 60})
    write_records(results, [run_record(own), run_record(few)])
    page = report_page(results)
    assert "gin-ak+, graphs=60</th>" in page
    assert "graphs=None" not in page


@pytest.mark.heavy
def test_report_page_lists_many_runs_for_the_tables_below_a_click(results):
    config = change(RunConfig(), {"train.epochs": 2})
    write_records(results, [run_record(config, seed) for seed in range(2, FEW + 2)])
    page = report_page(results)
    assert "all 22 runs are for the paper's tables; to train on your own" in page
    assert "<summary>22 runs with the settings of the paper's tables" in page
    assert "0 runs of your own" in page


def test_report_page_shows_what_was_measured(written):
    page = written.read_text()
    assert "<b>0.750 ± 0.707</b><sup>[a]</sup>" in page
    assert "[a] 2 of 3 seeds" in page
    assert "+50%" in page
    assert "10 x" in page
    assert "<td>0.25</td><td>1,234</td><td>40,000</td>" in page
    assert "How cost grows" in page
    assert "&lt;script&gt;alert" in page


def test_report_page_of_an_empty_folder_has_a_command_and_the_papers_numbers(tmp_path):
    page = report_page(tmp_path)
    assert "no run has been recorded in this folder; to train on your own" in page
    command = "gnnak train molecules.csv --smiles smiles --target logp"
    assert f"<pre><code>{command}</code></pre>" in page
    assert "(0.080 ± 0.001)" in page
    assert "0 of 467 cells" in page
    main = page.partition("<main>")[2]
    assert re.findall('<section id="([^"]*)"', main) == [*SECTIONS]
    assert re.findall('href="#([^"]*)"', page.partition("<main>")[0]) == [*SECTIONS]


def test_report_page_folds_tables_without_a_number_of_ours(written, tmp_path):
    """After a newcomer's first run, no table of the paper has a number of ours."""
    own = change(RunConfig(), {"data.name": "own", "data.own.path": "own.csv"})
    write_records(tmp_path, [run_record(own)])
    for page, folded in ((report_page(tmp_path), 10), (written.read_text(), 5)):
        shown, _, other = page.partition("<details>\n<summary>")
        assert other.startswith(f"{folded} tables of which nothing has been run")
        other = other.partition("</details>")[0]
        assert other.count('<h3 id="table-') == folded
        assert shown.count('<h3 id="table-') == 10 - folded
        links = re.findall('href="#table-', page)
        assert len(links) == 10 - folded


def test_write_report_leaves_one_file(written):
    assert [path.name for path in written.parent.iterdir()] == ["report.html"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_chromium_opens_the_page_without_console_messages(written, tmp_path):
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--dump-dom",
    ]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    told = subprocess.run(
        ["chromium", *options, profile, written.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0
    assert "gnnak: your runs" in told.stdout
    assert "CONSOLE" not in told.stderr


@pytest.mark.filterwarnings("ignore::gnnak.errors.DamagedFileWarning")
@pytest.mark.heavy
def test_report_page_goes_on_after_damage_in_every_file(results):
    whole = report_page(results)
    for path in results.glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        damage = [b"\xff\n", b"[1]\n", b"{}\n", b'{"kind": "run"}\n', b'{"kind": 3}\n']
        kinds = [f'{{"kind": "{kind}"}}\n'.encode() for kind in REQUIRED]
        path.write_bytes(b"".join([*damage, *kinds, *lines, lines[0][:-9]]))
    before, after = (
        page.partition("<main>")[2].partition('id="versions"')[0]
        for page in (whole, report_page(results))
    )
    assert before == after


def test_cost_rows_are_of_the_newest_record_of_a_run():
    newer = BENCH | {"seconds": {"epoch": 0.125}}
    run, costs = ("zinc, gin-ak+, k = 3", "abacus"), ("1,234", "40,000")
    assert cost_rows([BENCH, newer, BENCH | {"fast": False}]) == [
        (*run, "fast", "0.125", *costs),
        (*run, "plain", "0.25", *costs),
    ]


def test_growth_figures_are_one_for_each_quantity():
    shown = growth_figures([BENCH, *GROWTH])
    assert [figure.caption for figure in shown] == [
        "Training, by nodes.",
        "Training, by hops.",
    ]
    assert "grow with hops" in shown[1].svg


def test_report_names_only_options_that_the_model_reads():
    records = []
    for seed, model in enumerate(("gin-ak+", "sswl+-gin", "sswl+-gin")):
        options = {"model.name": model, "model.subgraphs.num_hops": 1 + seed}
        config = change(RunConfig(), {"data.name": "zinc", **options})
        records.append(run_record(config, seed))
    (task,) = group_tasks(records)
    found = {setting.name: len(setting.records) for setting in task.settings}
    assert found == {"gin-ak+": 1, "sswl+-gin": 2}


@pytest.mark.parametrize(("model", "settings"), [("gin-ak+", 1), ("gin-ak+-s", 2)])
def test_drop_options_separate_only_runs_with_subgraph_drop(model, settings):
    records = []
    for seed, coverage in enumerate((1, 3)):
        options = {"model.name": model, "model.drop.min_coverage": coverage}
        config = change(RunConfig(), {"data.name": "zinc", **options})
        records.append(run_record(config, seed))
    (task,) = group_tasks(records)
    assert len(task.settings) == settings
    assert task.runs == 2
