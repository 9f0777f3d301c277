"""Run the BREC benchmark on all pairs, with several seeds; resume a stopped run."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from gnnak.datasets.brec import Pair
from gnnak.training.brec.options import TrialOptions
from gnnak.training.brec.parallel import Place, run_in_parallel
from gnnak.training.brec.trial import TrialResult, run_trial
from gnnak.training.records.results import Record, append_record, read_records

PUBLISHED: dict[str, int] = {
    "NGNN": 166,
    "DSS-GNN": 221,
    "DS-GNN": 222,
    "GNN-AK": 222,
    "SUN": 223,
    "SSWL+": 248,
    "I2-GNN": 281,
}
"""Published numbers of distinguished pairs, of 400, as the BREC paper's code counts
them. The networks were trained with different options."""

Results = dict[int, dict[str, list[TrialResult]]]
"""Maps each seed, then each group, to the results of the group's pairs in order."""


@dataclass(frozen=True)
class Progress:
    """Where a run of BREC stores the results of finished pairs."""

    path: Path
    """File with one line of JSON per finished pair and seed."""

    @staticmethod
    def of(folder: Path, options: TrialOptions) -> "Progress":
        """Return the file of a run in `folder`; its name depends on all options."""
        digest = hashlib.sha256(json.dumps(asdict(options)).encode()).hexdigest()[:10]
        name = options.model.replace("*", "star")
        return Progress(folder / f"{name}-{digest}.jsonl")

    def finished(self) -> dict[Place, TrialResult]:
        """Return the results of finished pairs, by seed, group and index."""
        found = {}
        for line in read_records(self.path):
            place = (line.pop("seed"), line.pop("group"), line.pop("pair"))
            found[place] = TrialResult(**line)
        return found

    def add(self, seed: int, group: str, pair: int, result: TrialResult) -> None:
        """Store the result of one pair."""
        place = {"seed": seed, "group": group, "pair": pair}
        append_record(self.path, place | result.as_dict())


def run_pairs(
    groups: Mapping[str, Sequence[Pair]],
    options: TrialOptions,
    seeds: Sequence[int],
    device: torch.device,
    progress: Progress,
    notify: Callable[[str, int], None] = lambda group, seed: None,
    jobs: int = 1,
) -> Results:
    """Train and test a network on every pair, for every seed.

    Args:
        groups: The pairs of each group, as `load_brec` returns them.
        options: Options of the network and of its training.
        seeds: Seeds of the weights and relabellings.
        device: Where to train.
        progress: Where results are stored; pairs that it contains are not run again.
        notify: Function that is called with the group and the seed after each pair.
        jobs: Number of worker processes; 1 = train in this process.
    """
    found = progress.finished()
    pairs = {
        (seed, group, index): pair
        for seed in seeds
        for group, pairs in groups.items()
        for index, pair in enumerate(pairs)
    }
    missing = [(place, pair) for place, pair in pairs.items() if place not in found]
    for seed, group, _ in pairs.keys() & found.keys():
        notify(group, seed)

    def finish(place: Place, result: TrialResult) -> None:
        """Store the result of one pair."""
        found[place] = result
        progress.add(*place, result)
        notify(place[1], place[0])

    if jobs > 1:
        logs = progress.path.parent / "logs"
        run_in_parallel(missing, options, device, jobs, logs, finish)
    else:
        for place, pair in missing:
            finish(place, run_trial(pair, options, place[0], device))
    return {
        seed: {
            group: [found[seed, group, index] for index in range(len(pairs))]
            for group, pairs in groups.items()
        }
        for seed in seeds
    }


def counts(found: Sequence[TrialResult]) -> Record:
    """Count distinguished pairs, unreliable pairs and singular covariances.

    "released" and "corrected" are the two variants of the paired test; see
    `PairedTest`.
    """
    return {
        "pairs": len(found),
        "released": sum(result.distinguished(corrected=False) for result in found),
        "corrected": sum(result.distinguished(corrected=True) for result in found),
        "unreliable_released": sum(not r.reliable(corrected=False) for r in found),
        "unreliable_corrected": sum(not r.reliable(corrected=True) for r in found),
        "singular": sum(result.singular for result in found),
    }


def summary(results: Results) -> Record:
    """Return the counts of every seed, by group and in total, as a JSON object."""
    return {
        str(seed): {name: counts(found) for name, found in by_group.items()}
        | {"all": counts([result for found in by_group.values() for result in found])}
        for seed, by_group in results.items()
    }
