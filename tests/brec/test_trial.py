from dataclasses import replace
from types import SimpleNamespace

import networkx as nx
import pytest
import torch

from gnnak.brec import records
from gnnak.brec.data import load_brec
from gnnak.brec.run import Progress, Trials, summary
from gnnak.brec.trial import (
    THRESHOLD,
    TrialOptions,
    TrialResult,
    _degrees,
    _is_capturable,
    large_bytes,
    paired_test,
    relabellings,
    run_trial,
    trial_options,
    verdict,
)
from gnnak.errors import OptionError
from gnnak.graphs.named import four_regular_pair, rook, shrikhande, undirected
from tests.gpu import needs_gpu

CPU = torch.device("cpu")
SMALL = TrialOptions("gin-ak+", 1, 2, 1, 8, epochs=2)
GOOD = TrialResult(1e9, 1e9, 1.0, 0.0, False, 1, 0.1)


def verdicts(result):
    """Return whether a pair is distinguished, by the released and corrected test."""
    return [result.distinguished(corrected=corrected) for corrected in (False, True)]


def test_relabellings_are_isomorphic_and_distinct():
    graph = four_regular_pair()[0]
    found = relabellings(graph, 32, torch.Generator().manual_seed(0))
    edges = {frozenset(map(tuple, ends.T.tolist())) for ends, _ in found}
    assert len(found) == len(edges) == 32
    first = nx.Graph(graph[0].T.tolist())
    assert nx.vf2pp_is_isomorphic(first, nx.Graph(found[5][0].T.tolist()))


def test_relabellings_repeat_if_the_graph_is_too_symmetric():
    edge = undirected([(0, 1)], 2)
    assert len(relabellings(edge, 8, torch.Generator())) == 8


def test_gin_ak_plus_distinguishes_the_4_regular_pair_and_gin_does_not():
    found = run_trial(four_regular_pair(), SMALL, 100, CPU)
    assert verdicts(found) == [True, True]
    plain = run_trial(four_regular_pair(), TrialOptions("gin", epochs=1), 100, CPU)
    assert verdicts(plain) == [False, False]


def test_a_deep_ppgn_with_random_weights_distinguishes_rook_and_shrikhande():
    options = trial_options("ppgn-ak+", num_hops=1, channels=8, epochs=0)
    found = run_trial((rook(), shrikhande()), options, 100, CPU)
    assert verdicts(found) == [True, True]
    assert (found.epochs, found.loss) == (0, None)


def test_run_trial_counts_in_degrees_for_pna():
    path = undirected([(0, 1), (1, 2)], 3)
    assert _degrees((path, path)) == (0, 4, 2)
    options = trial_options("ds-pna", num_hops=1, num_layers=1, channels=4, epochs=1)
    found = run_trial(four_regular_pair(), options, 100, CPU)
    assert found.distinguished(corrected=True)


def test_rounding_errors_do_not_distinguish_a_pair():
    rounding = replace(GOOD, corrected=0.0)
    assert verdicts(rounding) == [False, False]
    check = replace(GOOD, same_released=1e9)
    assert check.reliable(corrected=False)
    assert not replace(check, same_corrected=1e9).reliable(corrected=False)


@pytest.mark.parametrize("pair", [0, 3, 7])
def test_gin_distinguishes_no_pair_of_brec(pair, data_dir):
    # The released test alone finds a significant difference of rounding errors.
    given = load_brec(data_dir)["basic"][pair]
    found = run_trial(given, TrialOptions("gin", epochs=1), 100, CPU)
    assert verdicts(found) == [False, False]


def test_gin_ak_plus_does_not_distinguish_rook_and_shrikhande():
    found = run_trial((rook(), shrikhande()), SMALL, 100, CPU)
    assert verdicts(found) == [False, False]


def test_a_seed_fixes_the_trial():
    first, second = (run_trial(four_regular_pair(), SMALL, 3, CPU) for _ in range(2))
    assert first == second


@needs_gpu
@pytest.mark.parametrize("model", ["gin-ak+", "sswl+-gin"])
def test_captured_steps_do_not_change_a_trial(model, monkeypatch, caplog):
    # Graphs without symmetries: where all nodes are alike, batch norms amplify rounding
    # errors, and two runs of the same trial differ.
    small = trial_options(model, num_layers=2, channels=8, epochs=4)
    drawn = (nx.gnp_random_graph(10, 0.4, seed=seed) for seed in (1, 2))
    pair = tuple(undirected(list(graph.edges), 10) for graph in drawn)
    device = torch.device("cuda")
    monkeypatch.setattr("gnnak.brec.trial.STOP_LOSS", -1.0)
    with caplog.at_level("WARNING", "gnnak"):
        found = run_trial(pair, small, 104, device)
    assert "not captured" not in caplog.text
    name = "gnnak.brec.trial.can_capture"
    monkeypatch.setattr(name, lambda *_: False)
    wanted = run_trial(pair, small, 104, device)
    assert found.epochs == wanted.epochs
    assert found.loss == pytest.approx(wanted.loss, abs=1e-3)


def test_a_reduced_learning_rate_stays_in_its_tensor():
    # A captured CUDA graph reads the learning rate from a fixed address.
    rate = torch.tensor(1.0)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([weight], lr=rate, capturable=True, foreach=False)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    schedule.step(1.0)
    schedule.step(1.0)
    assert optimizer.param_groups[0]["lr"].data_ptr() == rate.data_ptr()
    assert float(rate) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gin-ak+", True), ("gin-ak+-s", False), ("khop-gin", False), ("gin", True)],
)
def test_steps_are_captured_if_they_do_not_synchronise(model, expected, monkeypatch):
    monkeypatch.setattr("gnnak.brec.trial.can_capture", lambda *_: True)
    options = trial_options(model)
    network = options.build_network((0, 1))
    assert _is_capturable(network, CPU) == expected
    network.save_memory(recompute=True)
    assert not _is_capturable(network, CPU)


def test_a_seed_fixes_sampled_subgraphs():
    options = trial_options("gin-ak+-s", num_layers=1, channels=4, epochs=1)
    first, second = (run_trial(four_regular_pair(), options, 3, CPU) for _ in range(2))
    assert first == second


def test_a_small_gpu_saves_fewer_activations(monkeypatch):
    def memory(total):
        given = SimpleNamespace(total_memory=total << 30)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: given)
        return large_bytes(torch.device("cuda", 0))

    assert large_bytes(CPU) == memory(12) == 4 << 30
    assert memory(144) == 24 << 30


def test_trials_resume_finished_pairs(tmp_path, monkeypatch):
    calls = []

    def trial(pair, options, seed, device):
        calls.append(seed)
        return GOOD

    monkeypatch.setattr("gnnak.brec.run.run_trial", trial)
    groups = {"one": [four_regular_pair()] * 3}
    progress = Progress.of(tmp_path, SMALL)
    progress.add(7, "one", 1, GOOD)
    found = Trials(groups, SMALL, [7, 8], CPU, progress).run()
    assert calls == [7, 7, 8, 8, 8]
    assert summary(found)["7"]["all"]["released"] == 3
    Trials(groups, SMALL, [7, 8], CPU, progress).run()
    assert len(calls) == 5
    assert Progress.of(tmp_path, TrialOptions()).finished() == {}


def test_unreliable_pairs_are_not_counted():
    bad = TrialResult(1e9, 1e9, 80.0, 80.0, False, 1, 0.1)
    assert not bad.distinguished(corrected=True)
    counted = summary({1: {"one": [GOOD, bad]}})["1"]["all"]
    assert (counted["released"], counted["unreliable_released"]) == (1, 1)


def test_trial_options_are_checked():
    with pytest.raises(OptionError, match="epochs is -1"):
        TrialOptions(epochs=-1)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gin-ak+", ("egonets", 6, 4, 2, 32, 1e-4, None)),
        ("nested-gin", ("egonets", 1, 6, 1, 16, 1e-4, ())),
        ("ds-gin", ("egonets", 6, 10, 1, 32, 1e-4, None)),
        ("dss-gcn", ("egonets", 6, 9, 1, 32, 1e-4, None)),
        ("sun-gin", ("egonets", 6, 9, 1, 32, 1e-4, None)),
        ("sswl+-gin", ("whole", 6, 8, 1, 64, 1e-5, None)),
    ],
)
def test_trial_options_are_those_of_the_brec_paper(model, expected):
    options = trial_options(model)
    assert (
        *(options.subgraphs, options.num_hops, options.num_layers),
        *(options.base_layers, options.channels, options.lr, options.pairs),
    ) == expected


def test_trial_options_refuse_random_subgraphs():
    with pytest.raises(OptionError, match="subgraphs is 'walks'; use one of"):
        trial_options(subgraphs="walks")


@pytest.mark.parametrize(
    "model", ["nested-gin", "dss-gin", "sun-gin", "sswl+-gin", "l2fgnn-gin"]
)
def test_members_distinguish_what_they_can_and_no_more(model):
    small = trial_options(model, num_layers=3, channels=8, epochs=2, relabellings=18)
    found = run_trial(four_regular_pair(), small, 100, CPU)
    assert found.distinguished(corrected=True)
    hopeless = run_trial((rook(), shrikhande()), small, 100, CPU)
    assert not hopeless.distinguished(corrected=True)


def test_recomputed_activations_do_not_change_a_trial(monkeypatch):
    small = trial_options("sswl+-gin", num_layers=2, channels=4, epochs=2)
    saved = run_trial(four_regular_pair(), small, 100, CPU)
    monkeypatch.setattr("gnnak.brec.trial.LARGE_BYTES", 1)
    assert run_trial(four_regular_pair(), small, 100, CPU) == saved


@pytest.mark.slow
def test_pairs_in_parallel_have_the_results_of_one_process(tmp_path):
    groups = {"one": [four_regular_pair()] * 2, "two": [(rook(), shrikhande())]}
    one = Trials(groups, SMALL, [1], CPU, Progress.of(tmp_path / "one", SMALL)).run()
    progress, told = Progress.of(tmp_path / "two", SMALL), []
    trials = Trials(groups, SMALL, [1], CPU, progress, jobs=2)
    two = trials.run(lambda *where: told.append(where))
    assert two == one
    assert sorted(told) == [("one", 1), ("one", 1), ("two", 1)]
    assert set(progress.finished()) == {(1, "one", 0), (1, "one", 1), (1, "two", 0)}


def test_paired_test_of_one_channel_is_the_squared_t_statistic():
    first = torch.tensor([[1.0], [3.0], [2.0]])
    found = paired_test(first, torch.zeros(3, 1))
    # Mean 2, variance 1: 2 * 1 * 2, and three times that.
    assert found.released == pytest.approx(4.0)
    assert found.corrected == pytest.approx(12.0)
    assert not found.singular


def test_paired_test_is_invariant_to_linear_maps():
    torch.manual_seed(1)
    first, second = torch.randn(2, 32, 4).double()
    mixing = torch.randn(4, 4).double()
    found = paired_test(first, second)
    mixed = paired_test(first @ mixing, second @ mixing)
    assert mixed.corrected == pytest.approx(found.corrected)
    assert found.corrected == pytest.approx(32 * found.released)


def test_embeddings_that_do_not_depend_on_labels_are_distinguished_if_corrected():
    found = paired_test(torch.zeros(32, 16), torch.full((32, 16), 0.01))
    assert found.singular
    assert found.released == 0
    assert found.corrected > THRESHOLD


def test_equal_embeddings_are_not_distinguished():
    rows = torch.randn(32, 16).double()
    for other in (rows, rows * (1 + 1e-15)):
        found = paired_test(rows, other)
        assert found.corrected == 0


def test_threshold_belongs_to_the_corrected_test():
    torch.manual_seed(0)
    values = [paired_test(*torch.randn(2, 32, 16)) for _ in range(400)]
    above = sum(found.corrected > THRESHOLD for found in values)
    assert 5 <= above <= 40  # 5 percent are 20
    assert not any(found.released > THRESHOLD for found in values)


def test_verdict_needs_significance_and_reliability():
    assert verdict(100.0, 1.0) == (True, True)
    assert verdict(50.0, 1.0) == (False, True)
    assert verdict(100.0, 90.0) == (True, False)
    assert verdict(100.0, 100.0) == (False, False)


def test_paired_test_needs_two_equal_shapes():
    with pytest.raises(OptionError, match=r"shapes \[3, 2\] and \[4, 2\]; give two"):
        paired_test(torch.zeros(3, 2), torch.zeros(4, 2))


def test_options_that_only_the_distance_reads_are_left_out_for_other_pairs():
    options = trial_options("sswl-gin", pairs=["rrwp"])
    assert options.pairs == ("rrwp",)
    told = records.no_ceiling(trial_options("sswl-gin", pairs=["distance", "rrwp"]))
    assert told.endswith("sswl-gin on whole graphs with the encodings rrwp.")


@pytest.mark.parametrize("model", ["gin", "gin-ak", "khop-gin"])
def test_encodings_of_pairs_are_refused_if_the_model_reads_none(model):
    with pytest.raises(OptionError, match=f"{model} reads no encodings of pairs; lea"):
        trial_options(model, pairs=["rrwp"])


@pytest.mark.parametrize("model", ["gin-ak+", "sswl+-gin"])
def test_encodings_of_pairs_reach_the_network_and_have_no_ceiling(model):
    pairs = ["distance", "distance-counts"]
    options = trial_options(model, pairs=pairs, num_layers=1, channels=8)
    assert options.build_network((0, 1)).extractor.encodings[0].name == pairs[1]
    assert records.ceiling_of(options) is None
    told = records.no_ceiling(options)
    assert told.endswith("with the encodings distance-counts.")
    assert records.ceiling_of(trial_options(model, pairs=["distance"])) is not None
