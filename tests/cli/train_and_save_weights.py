"""Run the program; after training, each process saves its weights to a file.

`torchrun --nproc_per_node 2 -m tests.cli.train_and_save_weights train ...`
"""

import torch
from lightning.pytorch import Trainer

from gnnak.cli import main

fit = Trainer.fit


def fit_and_save(trainer: Trainer, model, *args, **options) -> None:
    fit(trainer, model, *args, **options)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    torch.save(weights, f"weights-{trainer.global_rank}.pt")


if __name__ == "__main__":
    Trainer.fit = fit_and_save
    main()
