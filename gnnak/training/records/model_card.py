"""The model card of a pretrained folder: what a network predicts, and how well."""

from __future__ import annotations

import platform
from importlib.metadata import version

import yaml

from gnnak import __version__
from gnnak.datasets.describe import describe_features
from gnnak.datasets.own.featurizers import find_featurizer
from gnnak.training.records.checkpoint import Checkpoint
from gnnak.training.records.command import train_command

PACKAGES = ("torch", "torch_geometric", "numpy")


def model_card(checkpoint: Checkpoint, name: str, intro: str = "") -> str:
    """Return a model card in Markdown, with a header that the Hugging Face hub reads.

    Args:
        checkpoint: The trained network.
        name: Folder or name that the card tells the reader to load.
        intro: A paragraph about the network, after the title.
    """
    info, model = checkpoint.info, checkpoint.config.model
    header = {
        "library_name": "gnnak",
        "tags": ["graph-ml", "graph-neural-network", "subgraph-gnn"],
        "pipeline_tag": "graph-ml",
        "metrics": [info.metric],
    }
    paragraphs = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---",
        f"# {model.name} trained on {info.title}",
        intro,
        _what(checkpoint),
        "## Scores",
        _scores(checkpoint),
        "## Use",
        _use(checkpoint, name),
        "## Training",
        _training(checkpoint),
        "All options are in `config.json`, the weights in `model.safetensors`; neither "
        "file contains code.",
    ]
    return "\n\n".join(each for each in paragraphs if each) + "\n"


def _what(checkpoint: Checkpoint) -> str:
    """Say what goes in and what comes out."""
    info, size = checkpoint.info, sum(w.numel() for w in checkpoint.weights.values())
    owner = "node" if info.node_task else "graph"
    names = info.classes or info.targets
    listed = f": {', '.join(names[:20])}" if names else ""
    listed += ", ..." if len(names) > 20 else ""
    count = f"{info.num_outputs} output{'s' if info.num_outputs > 1 else ''}"
    nodes = describe_features(info.node_features)
    edges = describe_features(info.edge_features) or "none"
    smiles = "; or SMILES strings" if find_featurizer(info) else ""
    return (
        f"- Task: {info.task}, {count} per {owner}{listed}\n"
        f"- Input: graphs with node features {nodes}, edge features {edges}{smiles}\n"
        f"- Weights: {size:,} numbers"
    )


def _scores(checkpoint: Checkpoint) -> str:
    info = checkpoint.info
    better = "lower" if info.lower_is_better else "higher"
    lines = [f"| part | {info.metric} ({better} is better) |", "|---|---|"]
    for part, score in checkpoint.scores.items():
        lines.append(f"| {part} | {'undefined' if score is None else f'{score:.4f}'} |")
    return "\n".join(lines)


def _use(checkpoint: Checkpoint, name: str) -> str:
    suffix, given = (
        ("csv", '["CCO"]') if find_featurizer(checkpoint.info) else ("npz", '"new.npz"')
    )
    return (
        "```python\nimport gnnak\n\n"
        f'model = gnnak.from_pretrained("{name}")\n'
        f"model.predict({given}).values\n```\n\n"
        f"```sh\ngnnak predict {name} new.{suffix} -o out.csv\n```"
    )


def _training(checkpoint: Checkpoint) -> str:
    """Say which data, command and versions the network comes from."""
    info, config = checkpoint.info, checkpoint.config
    command = train_command(config)
    versions = {name: version(name) for name in PACKAGES}
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    data = f"{info.title} ({info.source})"
    if checkpoint.fingerprint:
        data += f", fingerprint {checkpoint.fingerprint}"
    how = (
        "Trained from Python with `gnnak.train`."
        if command is None
        else f"```sh\n{command}\n```"
    )
    return (
        f"- Data: {data}\n"
        f"- Written with gnnak {__version__}, {listed}, Python "
        f"{platform.python_version()}\n\n{how}"
    )
