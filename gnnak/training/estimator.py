"""Estimators with the methods of scikit-learn: `GNNAKRegressor`, `GNNAKClassifier`."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from gnnak.datasets.own.objects import are_smiles, as_array, as_items
from gnnak.errors import GraphError, OptionError, counted
from gnnak.graphs.readers.rows import BadRowsError
from gnnak.optional import missing_package
from gnnak.training.own import train
from gnnak.training.trained import TrainedModel
from gnnak.typing import check_known


def listed_graphs(graphs: Sequence[Any]) -> list[Any]:
    if isinstance(graphs, str):
        raise OptionError("graphs is one string; give a list of graphs or SMILES.")
    listed = as_items(graphs)
    rows = (one for one in listed if isinstance(one, list | tuple | np.ndarray))
    if any(np.iterable(row) and are_smiles(list(row)) for row in rows):
        raise GraphError(
            "the rows of X are lists of strings; give one SMILES string per row, such "
            "as X[:, 0]."
        )
    return [str(one) if isinstance(one, np.str_) else one for one in listed]


def numbers_of(y: Any) -> np.ndarray:
    try:
        targets = np.asarray(as_array(y), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"y cannot be read as numbers ({error}); give numbers, or use "
            "GNNAKClassifier for classes."
        ) from error
    if targets.ndim not in (1, 2):
        raise OptionError(
            f"y has shape {list(targets.shape)}; give one number, or one row of "
            "numbers, for every graph."
        )
    missing = np.isnan(targets)
    unknown = missing if targets.ndim == 1 else missing.all(axis=1)
    if unknown.any():
        raise OptionError(
            f"y has no number in row {unknown.argmax() + 1}; leave out graphs without "
            "a target."
        )
    return targets


def classes_of(y: Any) -> np.ndarray:
    """Return classes as an array, [g]; refuse missing classes and fractions."""
    names = as_array(y)
    if names.ndim != 1:
        raise OptionError(
            f"y has shape {list(names.shape)}; give one class for every graph."
        )
    missing = [row for row, name in enumerate(names, 1) if name is None or name != name]
    if missing:
        raise OptionError(
            f"y has no class in row {missing[0]}; leave out graphs without a class."
        )
    if names.dtype.kind == "f" and (names != np.round(names)).any():
        raise OptionError(
            "y has numbers that are not whole; give classes, or use GNNAKRegressor."
        )
    return names


try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    use = "GNNAKRegressor and GNNAKClassifier need"
    raise missing_package(use, "scikit-learn") from error

VALIDATION_SHARE = 0.1
"""Fraction of the graphs that is held out to choose the best epoch."""


class _GNNAKEstimator(BaseEstimator):
    """Base class of `GNNAKRegressor` and `GNNAKClassifier`.

    Args:
        model: Name of the model, such as `gin-ak+`.
        num_layers: Number of layers.
        channels: Width of the node states.
        num_hops: Radius k of the egonets of the model.
        epochs: Maximum number of passes over the training graphs.
        batch_size: Graphs per training step.
        learning_rate: Learning rate of Adam.
        seed: Seed of the weights, the batches and the validation graphs.
        node_attr: Node attributes used as features; if None, the one named `x`.
        edge_attr: Edge attributes used as features; if None, the one named `edge_attr`.
        settings: Any other options by name, such as `{"train.clip": 1.0}`.

    Attributes:
        model_: The trained model.
        record_: Options, scores and times of the run.
    """

    _task = ""

    def __init__(
        self,
        model: str = "gin-ak+",
        *,
        num_layers: int = 3,
        channels: int = 64,
        num_hops: int = 3,
        epochs: int = 60,
        batch_size: int = 32,
        learning_rate: float = 0.001,
        seed: int = 0,
        node_attr: str | Sequence[str] | None = None,
        edge_attr: str | Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        **_unknown: Any,
    ) -> None:
        for name in _unknown:
            check_known("parameter", name, self._get_param_names())
        self.model = model
        self.num_layers = num_layers
        self.channels = channels
        self.num_hops = num_hops
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.seed = seed
        self.node_attr = node_attr
        self.edge_attr = edge_attr
        self.settings = settings

    def _train(self, graphs: Sequence[Any], y: np.ndarray) -> None:
        graphs = listed_graphs(graphs)
        if len(graphs) != len(y):
            raise GraphError(
                f"got {counted(len(graphs), 'graph')} and "
                f"{counted(len(y), 'target')}; give one target for every graph."
            )
        if len(graphs) < 3:
            count = counted(len(graphs), "graph")
            verb = "is" if len(graphs) == 1 else "are"
            raise GraphError(f"there {verb} {count}; give at least 3 to fit.")
        try:
            self.model_, self.record_ = train(
                graphs,
                y,
                task=self._task,
                split=_parts(len(graphs), self.seed).tolist(),
                progress=False,
                **self.get_params(deep=False),
            )
        except BadRowsError as error:
            raise GraphError(
                f"{error.told}; correct or leave out these graphs."
            ) from None

    def _values(self, graphs: Sequence[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return predictions, [g, columns], and the names of the columns."""
        check_is_fitted(self, "model_")
        model: TrainedModel = self.model_
        found = model.predict(listed_graphs(graphs))
        if found.bad:
            raise GraphError(f"{found.bad[0]}; correct or leave out this graph.")
        return found.values, found.columns


class GNNAKRegressor(RegressorMixin, _GNNAKEstimator):
    """A network that predicts one or several numbers per graph.

    It has the methods of scikit-learn's regressors, so it works in `cross_val_score`
    and `GridSearchCV`. Graphs are a list, or a column of a pandas frame, of SMILES
    strings, PyG `Data` or networkx graphs. `score` is the coefficient of determination,
    R².

    >>> GNNAKRegressor(epochs=20).get_params()["epochs"]
    20
    """

    _task = "regression"

    def fit(self, graphs: Sequence[Any], y: Any) -> Self:
        """Train on graphs and their targets.

        Args:
            graphs: The graphs.
            y: Targets, [g] or [g, targets]. NaN marks unknown targets. Every row needs
                at least one known target.
        """
        targets = numbers_of(y)
        self._flat = targets.ndim == 1
        self._train(graphs, targets)
        return self

    def predict(self, graphs: Sequence[Any]) -> np.ndarray:
        """Return the predicted targets: [g] or [g, targets], like the `y` of `fit`."""
        values, _ = self._values(graphs)
        return values[:, 0] if self._flat else values


class GNNAKClassifier(ClassifierMixin, _GNNAKEstimator):
    """A network that predicts the class of a graph.

    It has the methods of scikit-learn's classifiers, so it works in `cross_val_score`
    and `GridSearchCV`. Graphs are a list, or a column of a pandas frame, of SMILES
    strings, PyG `Data` or networkx graphs; classes are numbers or strings. `score` is
    the accuracy.

    Attributes:
        classes_: The classes, sorted.
    """

    _task = "classification"

    def fit(self, graphs: Sequence[Any], y: Any) -> Self:
        """Train on graphs and their classes.

        Args:
            graphs: The graphs.
            y: The class of each graph, [g].
        """
        self.classes_, codes = np.unique(classes_of(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise OptionError(
                f"y has the classes {self.classes_.tolist()}; give at least two."
            )
        self._train(graphs, codes)
        return self

    def predict_proba(self, graphs: Sequence[Any]) -> np.ndarray:
        """Return class probabilities, [g, classes], in the order of `classes_`."""
        values, columns = self._values(graphs)
        # Columns are named by class number and sorted as text: "0", "1", "10", "2".
        return values[:, np.argsort([int(name) for name in columns])]

    def predict(self, graphs: Sequence[Any]) -> np.ndarray:
        """Return the most probable class of each graph, [g]."""
        likely = self.predict_proba(graphs).argmax(axis=1)
        return self.classes_[likely]


def _parts(count: int, seed: int) -> np.ndarray:
    """Return an array [count]: 1 for random validation graphs, 0 for the others."""
    chosen = max(1, round(VALIDATION_SHARE * count))
    part = np.zeros(count, dtype=np.int64)
    part[np.random.default_rng(seed).permutation(count)[:chosen]] = 1
    return part
