from math import inf

import pytest

from gnnak import SubgraphDrop
from gnnak.errors import OptionError
from gnnak.models import build_model
from gnnak.nn.features import Categorical
from gnnak.report.cells import load_table, table_names
from gnnak.training.config.options import change


def find(table, row, column):
    cells = (cell for line in load_table(table).rows for cell in line)
    found = [c for c in cells if c.row == row and c.column.startswith(column)]
    assert len(found) == 1, [cell.title for cell in found]
    return found[0]


@pytest.mark.parametrize(
    ("table", "row", "column", "paper"),
    [
        ("simulation", "GIN-AK", "Triangle", "0.0934"),
        ("simulation", "PPGN-AK+", "SR25, published", "100%"),
        ("simulation", "PPGN-AK+", "Spectral radius", "OOM"),
        ("simulation", "PPGN-AK+", "Radius", None),
        ("simulation", "GCN", "Connected, legacy", "-1.7057"),
        ("simulation", "GCN", "Connected, true", None),
        ("simulation", "GCN", "EXP, held-out", None),
        ("ppgn-sr25", "Outer depth 2, published", "1 hop, base depth 1", "33.33%"),
        ("ppgn-sr25", "Outer depth 1, published", "2 hops, base depth 3", "46.67%"),
        ("real-world", "GIN-AK+", "ZINC", "0.080 ± 0.001"),
        ("real-world", "PNA*-AK+-S", "CIFAR10", "74.79 ± 0.18"),
        ("real-world", "PNA*-AK+", "PATTERN", "OOM"),
        ("real-world", "CIN", "MolHIV", "0.8094 ± 0.0057"),
        ("subgraphdrop", "ZINC-12K (MB)", "GIN-AK+-S R=3", "1392"),
        ("subgraphdrop", "CIFAR10 (s an epoch)", "GIN-AK+-S R=5", "119.7"),
        ("datasets", "PATTERN", "Mean edges", "6079.8"),
        ("datasets", "MolPCBA", "Graphs", "350343 / 43793 / 43793"),
        ("egonet-size", "k = 2", "ZINC", "0.120 ± 0.005"),
        ("encodings", "w/o subgraph encoding", "CIFAR10", "67.76 ± 0.29"),
        ("context-d2c", "GIN-AK+ w/o context", "Spectral radius", "-5.2784"),
        ("context-d2c", "GIN-AK+ w/o D2C", "4-cycle", "0.1467"),
        ("base-depth", "GIN-AK+ with D2C, 3 x 2", "Tailed", "0.0100"),
        ("base-depth", "GIN-AK+ w/o D2C, 1 x 6", "Spectral radius", "-4.8428"),
        ("tu", "GIN-AK+", "RDT-B", "94.8 ± 0.8"),
        ("tu", "PPGNs", "MUTAG", "90.6 ± 8.7"),
        ("tu", "RWK", "NCI1", ">3 days"),
    ],
)
def test_tables_hold_the_numbers_of_the_paper(table, row, column, paper):
    assert find(table, row, column).paper == paper


def test_tables_are_ten_with_as_many_cells_to_run_as_the_paper_has_rows_and_columns():
    counts = {name: len(list(load_table(name).cells())) for name in table_names()}
    assert counts == {
        "simulation": 9 * 13,
        "ppgn-sr25": 6 * 6,
        "real-world": 10 * 5,
        "subgraphdrop": 2 * 7,
        "datasets": 0,
        "egonet-size": 4 * 2,
        "encodings": 5 * 2,
        "context-d2c": 5 * 15,
        "base-depth": 13 * 9,
        "tu": 2 * 6,
    }


def test_tables_share_the_runs_that_are_the_same():
    full = find("real-world", "GIN-AK+", "ZINC").config
    assert find("encodings", "Full", "ZINC").config == full
    assert find("egonet-size", "k = 3", "ZINC").config == full
    gin = find("simulation", "GIN", "EXP, published").config
    assert find("context-d2c", "GIN", "EXP, published").config == gin
    deep = find("base-depth", "GIN-AK, 3 x 2", "Diameter").config
    assert find("simulation", "GIN-AK", "Diameter").config == deep


def test_gnn_ak_keeps_its_own_encodings_where_the_others_have_chosen_ones():
    for column in ("MolHIV", "MolPCBA"):
        assert find("real-world", "GIN-AK", column).config.model.encodings is None
        assert find("real-world", "GIN-AK+", column).config.model.encodings is not None


def test_ppgn_has_a_quarter_of_the_rate_only_where_its_states_would_overflow():
    cells = (cell for line in load_table("simulation").rows for cell in line)
    rates = {cell.title: cell.config.train.learning_rate for cell in cells}
    lower = {title for title, rate in rates.items() if rate == 0.00025}
    assert lower == {
        "PPGN / Connected, true label (log10 MSE)",
        "PPGN / Connected, legacy label (log10 MSE)",
        "PPGN / Radius (log10 MSE)",
    }
    assert {rate for title, rate in rates.items() if title not in lower} == {1e-3, 2e-3}
    assert any("0.00025" in note for note in load_table("simulation").notes)


def test_columns_of_one_data_set_differ_by_protocol_and_target():
    published = find("simulation", "GIN", "EXP, published").plan
    held_out = find("simulation", "GIN", "EXP, held-out").plan
    assert (published.config.data.protocol, published.folds) == ("published", None)
    assert (held_out.config.data.protocol, held_out.folds) == ("held-out", 10)
    legacy = find("simulation", "GIN", "Connected, legacy").config
    assert legacy.data.target == "connected-legacy"


def test_rows_with_subgraph_drop_sample_as_published():
    shares = {1: 0.07, 2: 0.14, 3: 0.2, 4: 0.28, 5: 0.35}
    for wanted, share in shares.items():
        column = f"GIN-AK+-S R={wanted}"
        for row in ("CIFAR10 (ACC)", "CIFAR10 (s an epoch)", "CIFAR10 (MB)"):
            drop = find("subgraphdrop", row, column).config.model.drop
            assert drop == SubgraphDrop("random", wanted, share=share)
        drop = find("subgraphdrop", "ZINC-12K (MAE)", column).config.model.drop
        assert drop == SubgraphDrop("farthest", wanted, ties="lowest")
    for column in ("ZINC", "MolHIV", "MolPCBA"):
        drop = find("real-world", "GIN-AK+-S", column).config.model.drop
        assert drop == SubgraphDrop("farthest", 3, ties="lowest")
    drop = find("real-world", "GIN-AK+-S", "CIFAR10").config.model.drop
    assert drop == SubgraphDrop("random", 3, share=0.2)


def test_base_depth_keeps_six_layers_in_all():
    for cell in load_table("base-depth").cells():
        model = cell.config.model
        assert model.num_layers * model.base_layers == 6


def test_load_table_names_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'real-world'"):
        load_table("realworld")


def test_changed_changes_the_runs_and_not_what_the_paper_asks_for():
    cell = next(load_table("tu").changed({"train.epochs": 2}).cells())
    assert (cell.config.train.epochs, cell.plan.epochs) == (2, 100)


def test_shortened_divides_the_epochs_and_those_between_changes_of_the_rate():
    table = load_table("real-world")
    whole, short = next(table.cells()), next(table.shortened(4).cells())
    assert (whole.config.train.epochs, whole.config.train.step) == (310, 50)
    assert (short.config.train.epochs, short.config.train.step) == (78, 13)
    assert short.plan.epochs == 310
    assert next(table.shortened(1e9).cells()).config.train.epochs == 1
    assert next(table.shortened(inf).cells()).config.train.epochs == 1
    assert table.shortened(1) == table
    table = load_table("real-world").changed({"train.warm_up": 10})
    for factor, epochs, warm_up in ((4, 78, 2), (50, 7, 0), (inf, 1, 0)):
        short = next(table.shortened(factor).cells()).config.train
        assert (short.epochs, short.warm_up) == (epochs, warm_up)
    table = table.changed({"train.warm_up": 9, "train.epochs": 10})
    short = next(table.shortened(9).cells()).config.train
    assert (short.epochs, short.warm_up) == (2, 1)


def test_changed_notes_what_is_not_the_papers():
    table = load_table("encodings").changed({"train.epochs": 2, "model.channels": 8})
    assert table.notes == (
        "Not the paper's settings: model.channels = 8 in every run of ours.",
    )
    assert load_table("encodings").notes == ()


def test_networks_of_gnn_ak_share_subgraphs_and_base_gnns_have_none():
    models = {
        cell.config.model.name: change(cell.config, {"model.channels": 8}).model
        for name in table_names()
        for cell in load_table(name).cells()
    }
    for name, model in models.items():
        net = build_model(name, Categorical((3,)), Categorical((2,)), 1, model)
        assert (net.shared is None) == (name in ("gin", "gcn", "pna*", "ppgn"))
