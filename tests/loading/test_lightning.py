"""Loaders in PyTorch Lightning: a run that continues has the batches of one run."""

import lightning
import pytest
import torch
from torch_geometric.data import Data

from gnnak import GraphLoader, RootLoader

GRAPH = Data(torch.arange(9.0)[:, None], torch.arange(9).expand(2, 9))
GRAPHS = [GRAPH.subgraph(torch.tensor([number])) for number in range(9)]
LOADERS = {
    "graphs": lambda: GraphLoader(GRAPHS, 2, shuffle=True),
    "seeds": lambda: RootLoader(GRAPH, batch_size=2, shuffle=True, num_layers=1),
}


class Task(lightning.LightningModule):
    """Records the nodes of each batch, as pairs of the epoch and these nodes."""

    def __init__(self, name, in_hook):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.seen, self.name, self.in_hook = [], name, in_hook

    def train_dataloader(self):
        return LOADERS[self.name]()

    def training_step(self, batch, index):
        self.seen.append((self.current_epoch, batch.x.flatten().tolist()))
        return self.linear(batch.x).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())

    def fit(self, folder, max_epochs, checkpoint=None, **options):
        saved = lightning.pytorch.callbacks.ModelCheckpoint(
            folder, "{epoch}-{step}", save_top_k=-1, **options
        )
        trainer = lightning.Trainer(
            max_epochs=max_epochs,
            logger=False,
            callbacks=[saved],
            accelerator="cpu",
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        given = None if self.in_hook else LOADERS[self.name]()
        trainer.fit(self, given, ckpt_path=checkpoint)
        return self.seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_hook", [False, True])
@pytest.mark.parametrize("name", LOADERS)
def test_a_run_continued_after_an_epoch_has_the_order_of_one_run(
    name, in_hook, tmp_path
):
    whole = Task(name, in_hook).fit(tmp_path, 4)
    rest = Task(name, in_hook).fit(tmp_path, 4, tmp_path / "epoch=1-step=10.ckpt")
    assert len(whole) == 20
    assert rest == whole[10:]
    assert rest[:5] != [(epoch + 2, nodes) for epoch, nodes in whole[:5]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_hook", [False, True])
def test_a_run_continued_within_an_epoch_gets_its_remaining_batches(in_hook, tmp_path):
    options = {"every_n_train_steps": 2}
    whole = Task("graphs", in_hook).fit(tmp_path, 3, **options)
    middle = tmp_path / "epoch=1-step=8.ckpt"
    rest = Task("graphs", in_hook).fit(tmp_path, 3, middle, **options)
    assert rest == whole[8:]
