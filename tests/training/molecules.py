"""Small molecules, and options with which a network trains in a second."""

from typing import Any

SMILES = [
    f"{chain}{end}"
    for chain in ("C", "CC", "CCC", "C1CC1", "c1ccccc1", "CC(C)C")
    for end in ("O", "N", "F", "Cl", "C#N", "S")
]
SMALL: dict[str, Any] = {"epochs": 2, "channels": 8, "num_layers": 1, "progress": False}


def carbons(smiles: list[str]) -> list[float]:
    """Return a target with large numbers: 1000 per carbon atom, and a half."""
    return [1000 * text.replace("Cl", "").lower().count("c") + 0.5 for text in smiles]
