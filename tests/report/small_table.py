"""A table with two rows and two columns, and records for it."""

from gnnak.report.cells import Cell, PaperTable, Plan, Style
from gnnak.report.tables import FilledTable, fill_tables
from gnnak.training.config.options import change
from gnnak.training.config.run_config import DataConfig, RunConfig
from gnnak.training.records.lookup import RunRecords
from tests.report.hand_records import run_record

GOOD = RunConfig()
POOR = change(GOOD, {"model.name": "gin"})
IMAGES = RunConfig(data=DataConfig("cifar10"))


def plan(config: RunConfig) -> Plan:
    return Plan(config.data.name, config, 310, 2, None, "score")


SMALL = PaperTable(
    "small",
    "A & B",
    ("A note, 100% true.",),
    ("ZINC (MAE)", "CIFAR10 (ACC)"),
    (
        (
            Cell("GIN", "ZINC (MAE)", "0.163 ± 0.004", Style(3), plan(POOR)),
            Cell("GIN", "CIFAR10 (ACC)", "59.82", Style(2, True)),
        ),
        (
            Cell("GIN-AK+", "ZINC (MAE)", "0.080", Style(3), plan(GOOD)),
            Cell("GIN-AK+", "CIFAR10 (ACC)", None, Style(2, True, "%"), plan(IMAGES)),
        ),
    ),
)
RECORDS = [
    run_record(POOR, test=0.25),
    run_record(GOOD, 0, test=0.081),
    run_record(GOOD, 1, test=0.083),
]


def records(*more) -> RunRecords:
    """Return `RECORDS` and more records as `RunRecords`."""
    return RunRecords([*RECORDS, *more])


def fill_table(table: PaperTable, *given) -> FilledTable:
    """Return `fill_tables` of one table."""
    (filled,) = fill_tables([table], *given)
    return filled
