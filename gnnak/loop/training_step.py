"""`TrainingStep`: forward pass, loss, backward pass, clipping and optimiser step."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from gnnak.backend import operation
from gnnak.distributed import (
    average_gradients,
    can_average,
    one_process,
    without_hooks,
)
from gnnak.errors import OptionError, SizeError, counted, described, kind_of
from gnnak.graphs.real import RealCounts
from gnnak.loading.forms import TOO_SMALL, PaddedForm, padded_form
from gnnak.loading.items import Item, like, tensors_of
from gnnak.loop.calling import CastTogether, call_model
from gnnak.loop.changes import (
    EdgeGuard,
    ModelWatch,
    NumberWatch,
    built_weights,
    is_unbuilt,
)
from gnnak.loop.padding import (
    IgnorePadding,
    axes_of,
    changed,
    disturbed,
    padded_rows,
    real_rows_of,
)
from gnnak.loop.step import clip_gradients, train_once
from gnnak.loop.verification import find_difference
from gnnak.nn.calling.signature import check_module
from gnnak.nn.norm import on_graph, padded_sync_norms
from gnnak.subgraphs.attached import unchanged
from gnnak.typing import check_flag

if TYPE_CHECKING:
    from torch_geometric.data import Batch

Call = Callable[[nn.Module, Any], Any]
"""Calls a model with a batch, and returns the model's outputs."""
MOST_CHANGES = 4
"""How often Python numbers in the model, such as `dropout.p`, may change between steps.
After more changes, steps are no longer captured."""
MOST_CAPTURED = 4
"""Largest number of captured models in memory; each loader needs its own."""


@dataclass
class CapturedModel:
    """Calls a model with padded batches; the fast backend also captures the calls."""

    forward: Callable[[Item], Any]
    update: Callable[[], object]
    """Clips the gradients of the last call, and takes an optimiser step."""
    gave_up: bool = False
    reason: str | None = None
    update_reason: str | None = None
    """Why updates of weights are not captured. None if they are, or may be later."""

    def __call__(self, item: Item) -> Any:
        return self.forward(item)

    def close(self) -> None:
        """Free the memory of all captures."""


@operation
def make_captured_model(
    forward: Callable[[Item], Any],
    wrapped: nn.Module | None,
    weights: Sequence[nn.Parameter],
    device: torch.device,
    update: Callable[[], object],
    optimizer: Optimizer,
) -> CapturedModel:
    """Return a model without captures; the fast backend replaces this function."""
    return CapturedModel(forward, update)


class Captured(NamedTuple):
    """A captured model and, for each output, the axis of its rows, such as "nodes"."""

    run: CapturedModel
    axes: list[str | None]


class PaddedLoss(nn.Module):
    """The loss as a module, so that `find_difference` also tests it with padding."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, output: Any, batch: Batch, real: RealCounts | None) -> Tensor:
        return self.loss(output, batch, real)


class TrainingStep:
    """Train a model on one batch: loss, backward pass, clipping and optimiser.

    `value = step(batch)` does what these lines do:

        optimizer.zero_grad()
        value = loss(model(batch), batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(weights, clip)
        optimizer.step()

    For batches of a `GraphLoader` on a GPU, all of these lines except the loss are
    captured as CUDA graphs and replayed. With `padded_loss`, the loss is also captured.
    A captured model runs on a padded copy of the batch, but padding does not change the
    results: BatchNorms ignore padding rows, and `loss` gets real rows only. On the
    first padded batch, the model's outputs, buffers and gradients with and without
    padding are compared. If they differ, or if the model cannot be captured, steps run
    without a capture, and one line in the log says why and where.

    Args:
        model: Any PyTorch module, for example a PyG model, uplifted or not. It is
            called with the batch, or by the names of its `forward`'s parameters: `x`,
            `edge_index`, `edge_attr`, `batch` and so on; see `call`.
        loss: `loss(output, batch)` returns the loss as a scalar tensor.
        optimizer: Updates the weights. Schedulers of the learning rate work as usual.
        clip: Largest norm of all gradients together. None means no clipping.
        call: A function `call(model, batch)` that calls the model and returns its
            output. Needed only if the model cannot be called as above.
        autocast: Data type of mixed precision, such as `torch.bfloat16`. If None, the
            step uses the autocast setting that is active where the step is called.
        capture: Whether steps on a GPU are captured as CUDA graphs.
        padded_loss: Whether `loss(output, batch, real)` is called with padding, so that
            it can be captured. Outputs and fields then have padding rows at the end;
            `real.graphs`, `real.nodes` and `real.edges` are the numbers of real rows,
            as tensors on the device. `real` is None if there is no padding. The loss
            must not read Python numbers that change, since a capture records them as
            constants. If the loss is a module, its attributes may change.

    Attributes:
        reason: Why steps are not captured. None if they are captured, or may be later.

    >>> from torch_geometric.nn import GIN
    >>> model = GIN(4, 8, num_layers=2)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> TrainingStep(model, lambda out, batch: out.sum(), optimizer, clip=1.0)
    TrainingStep(GIN, Adam, clip=1.0)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[..., Tensor],
        optimizer: Optimizer,
        clip: float | None = None,
        *,
        call: Call | None = None,
        autocast: torch.dtype | None = None,
        capture: bool = True,
        padded_loss: bool = False,
    ) -> None:
        check_options(model, loss, optimizer, padded_loss)
        check_choices(clip, call, autocast, capture, padded_loss)
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.clip, self.call, self.autocast = clip, call or call_model, autocast
        self.capture, self.padded_loss = capture, padded_loss
        self.reason: str | None = None
        self._loss = PaddedLoss(loss)
        # What is captured: the model, or also the loss.
        self._inside = nn.ModuleList([model, self._loss]) if padded_loss else model
        self._weights = built_weights(self._inside)
        # All processes average gradients and norms alike, captured or not. Otherwise,
        # their collective operations would not match.
        self._wrapped = model if capture and can_average(model) else None
        norms = [m for m in model.modules() if isinstance(m, nn.SyncBatchNorm)]
        usual = [n for n in norms if n.momentum is not None and not n.process_group]
        self._sync_norms = usual if capture else []
        self._has_other_norms = len(usual) < len(norms)
        self._watch = ModelWatch(self._inside)
        self._numbers = NumberWatch(self._inside)
        self._edges = EdgeGuard()
        self._num_changes = 0
        self._logged: set[str] = set()
        # Maps a loader and the fields of its batches to a captured model, oldest first.
        self._captured: dict[tuple, Captured] = {}
        self._update: Callable[[], object] = self._update_weights
        self._is_called = False

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        return next(self.model.parameters()).device

    def __call__(self, batch: Batch) -> Tensor:
        """Train on one batch.

        Args:
            batch: A batch of a `GraphLoader`, of a `RootLoader` or of PyG's
                `DataLoader`, on the device of the model.

        Returns:
            The loss, detached, as a 0-dim tensor.

        Raises:
            OptionError: If `batch` is no batch, or if the loss is no scalar tensor or
                does not depend on weights.
            SizeError: If the device has too little memory for the batch.
        """
        wrapped = self._wrapped
        if wrapped is not None and wrapped._join_config.enable:
            raise OptionError(
                "a TrainingStep cannot run in DistributedDataParallel.join(); leave "
                "out join(), since a GraphLoader gives all processes equally many "
                "batches, or give TrainingStep(..., capture=False)."
            )
        averages = wrapped is not None and wrapped.require_backward_grad_sync
        try:
            with (
                without_hooks(wrapped) if averages and wrapped else nullcontext(),
                padded_sync_norms(self._sync_norms),
            ):
                return train_once(
                    lambda: checked_loss(self._loss_of(batch)),
                    self.optimizer,
                    lambda: self._finish(averages),
                    self.device,
                    self.autocast,
                )
        except torch.OutOfMemoryError as error:
            graphs = counted(getattr(batch, "num_graphs", 1), "graph")
            raise SizeError(
                f"a step on a batch of {graphs} does not fit into the memory of "
                f"{self.device}; use smaller batches."
            ) from error

    def _finish(self, averages: bool) -> None:
        if averages and self._wrapped is not None:
            wrapped = self._wrapped
            average_gradients(wrapped.parameters(), wrapped.process_group)
        self._update()  # as `_loss_of` has chosen

    def _update_weights(self) -> None:
        clip_gradients(self.optimizer, self.clip)
        self.optimizer.step()

    def _loss_of(self, batch: Batch) -> Any:
        """Return the loss, by a replay of captured CUDA graphs if possible."""
        self._edges.check()
        self._notice_changes()
        self._update = self._update_weights
        found = self._find_captured(batch)
        if found is None:
            outputs = self.call(self.model, batch)
            more = (None,) if self.padded_loss else ()
            return self.loss(outputs, batch, *more)
        (captured, axes), item, same_edges = found
        self._update = captured.update
        result = captured(item)
        if same_edges is not None:
            result = self._edges.guard(result, same_edges)
        if self.padded_loss:
            return result
        return self.loss(real_rows_of(result, item, axes), batch)

    def _find_captured(
        self, batch: Batch
    ) -> tuple[Captured, Item, Tensor | None] | None:
        """Find the captured model for a batch; None if this step is not captured.

        Returns the captured model, the padded batch, and a flag on the device: whether
        `edge_index` is unchanged. The flag is None if the batch has no subgraphs.
        """
        if self.reason is not None or not self.capture:
            return None
        form = padded_form(batch)
        if isinstance(form, str):
            self._log_unpadded(form)
            return None
        key = (form.build, *form.kinds())
        same_edges = unchanged(getattr(batch, "edge_index", None))
        if same_edges is not None:
            # Reading the flag synchronises with a GPU, so it is read only once there.
            known = same_edges.is_cuda and key in self._captured
            if not known and not same_edges:
                self._log_unpadded("the edge_index of the batch was overwritten")
                return None
        if key not in self._captured and not self._prepare(batch, form, key):
            return None
        captured = self._captured[key]
        if captured.run.gave_up:
            self.reason = captured.run.reason
            return None
        if captured.run.update_reason is not None:
            self._log_once(captured.run.update_reason, "updates of the optimizer are")
        return captured, form.item, same_edges

    def _prepare(self, batch: Batch, form: PaddedForm, key: tuple) -> bool:
        """Prepare to capture steps; if this is impossible, log why and return False."""
        forward = functools.partial(self._forward, form.build)
        axes: list[str | None] = []
        if isinstance(self.model, DistributedDataParallel) and self._wrapped is None:
            self.reason = (
                "DistributedDataParallel has a communication hook, mixed precision, "
                "sparse gradients, a static graph, or unused or ignored weights"
            )
        elif self._has_other_norms:
            self.reason = "a SyncBatchNorm has a process group, or no momentum"
        elif hasattr(self.model, "_orig_mod"):
            self.reason = "the model is compiled by torch.compile"
        elif is_unbuilt(self.model) and not self._is_called:
            # The first call builds weights and buffers, so steps are captured later.
            self._is_called = True
            return False
        elif not any(weight.requires_grad for weight in self._weights):
            self.reason = "all weights of the model are frozen"
        elif self.padded_loss and self._trains_others():
            self.reason = "the optimizer trains weights of neither model nor loss"
        else:
            # The other processes may not compare now.
            with one_process():
                self.reason, axes = self._compare(forward, batch, form.item)
        if self.reason is not None:
            self._log_once(self.reason)
            return False
        if self._watch.has_changed(quick=False):
            # The first call of the model has built weights.
            self._list_weights()
        weights = [weight for weight in self._weights if weight.requires_grad]
        captured = make_captured_model(
            (lambda item: forward(item)[1]) if self.padded_loss else forward,
            None if self._wrapped is None else self._inside,
            weights,
            self.device,
            self._update_weights,
            self.optimizer,
        )
        if len(self._captured) == MOST_CAPTURED:
            self._captured.pop(next(iter(self._captured))).run.close()
        self._captured[key] = Captured(captured, axes)
        self._numbers.remember()
        form.pad_to_largest()
        return True

    def _trains_others(self) -> bool:
        inside = set(map(id, self._inside.parameters()))
        groups = self.optimizer.param_groups
        return any(id(w) not in inside for group in groups for w in group["params"])

    def _compare(
        self, forward: Callable[..., Any], batch: Batch, item: Item
    ) -> tuple[str | None, list[str | None]]:
        """Return the result of `find_difference`, and the axis of each output."""
        outputs: Any = None
        axes: list[str | None] = []

        def plain() -> Any:
            nonlocal outputs
            own = changed(batch, Tensor.clone)
            outputs = self.call(self.model, own)
            if self.padded_loss:
                outputs = outputs, self._loss(outputs, own, None)
            return outputs

        def padded(disturb: bool) -> Any:
            nonlocal axes
            # Copy the item: layers cache values in its rooted subgraphs, and the model
            # may change features in place.
            own = like(item, [each.clone() for each in tensors_of(item)])
            found = forward(own, disturb)
            axes = axes_of(outputs, found, own)
            return real_rows_of(found, own, axes)

        return find_difference(self._inside, plain, padded), axes

    def _forward(
        self, build: Callable[[Item], Batch], item: Item, disturb: bool = False
    ) -> Any:
        batch = build(item)
        if disturb:
            rows = padded_rows(item)
            batch = changed(batch, lambda value: disturbed(value.clone(), rows))
        real = item.batch.real
        with self._numbers.during_call():
            with on_graph(real), IgnorePadding(item, disturb), CastTogether(self.model):
                outputs = self.call(self.model, batch)
            if not self.padded_loss:
                return outputs
            return outputs, self._loss(outputs, batch, real)

    def _log_unpadded(self, reason: str) -> None:
        # A small last batch is no news if other batches are captured.
        news = reason != TOO_SMALL or not self._captured
        if news and self.device.type == "cuda":
            self._log_once(reason, "steps on some batches are")

    def _log_once(self, reason: str, subject: str = "steps are") -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            message = "%s not captured, which is slower: %s"
            logging.getLogger("gnnak").warning(message, subject, reason)

    def _notice_changes(self) -> None:
        number = self._numbers.changed() if self._captured else None
        has_changed = self._watch.has_changed(quick=bool(self._captured))
        if has_changed:
            self._list_weights()
            self.reason = None
        while self._captured and (has_changed or number is not None):
            self._captured.popitem()[1].run.close()
        if number is not None:
            self._num_changes += 1
            if self._num_changes > MOST_CHANGES:
                self.reason = (
                    f"{number} has changed between steps {self._num_changes} times; "
                    "make it a tensor on the GPU, and change it by fill_()"
                )
                self._log_once(self.reason)

    def _list_weights(self) -> None:
        known = {id(weight) for weight in self._weights}
        for group in self.optimizer.param_groups:
            known |= {id(weight) for weight in group["params"]}
        self._weights = built_weights(self._inside)
        new = [weight for weight in self._weights if id(weight) not in known]
        if new:
            logging.getLogger("gnnak").warning(
                "the model built %s in its first call, which the optimizer "
                "does not train; call the model once under torch.no_grad() before "
                "you build the optimizer",
                counted(len(new), "weight"),
            )

    def __repr__(self) -> str:
        parts = [type(self.model).__name__, type(self.optimizer).__name__]
        options = {"clip": self.clip, "autocast": self.autocast}
        parts += [f"{k}={v}" for k, v in options.items() if v is not None]
        if self.reason is not None:
            parts.append(f"not captured: {self.reason}")
        return f"TrainingStep({', '.join(parts)})"


AUTOCAST = (torch.bfloat16, torch.float16)
PYTORCH_LOSSES = (
    "torch",
    "torch._C._nn",
    "torch.nn.functional",
    "torch.nn.modules.loss",
)
"""Modules in which PyTorch defines losses. These losses take tensors, not a batch."""


def check_options(
    model: nn.Module, loss: object, optimizer: object, padded_loss: bool = False
) -> None:
    check_module("the model", model)
    if not any(True for _ in model.parameters()):
        name = type(model).__name__
        raise OptionError(f"{name} has no weights to train; give a model with weights.")
    _check_loss(loss, "output, batch, real" if padded_loss else "output, batch")
    if not isinstance(optimizer, Optimizer):
        raise OptionError(
            f"optimizer is {described(optimizer)}; give an optimiser of torch.optim, "
            "such as torch.optim.Adam(model.parameters())."
        )
    _check_optimizer(optimizer, model, loss)


def _check_loss(loss: Any, given: str) -> None:
    if isinstance(loss, type) or not callable(loss):
        raise OptionError(f"loss is {described(loss)}; give a function loss({given}).")
    is_module = isinstance(loss, nn.Module)
    if (type(loss) if is_module else loss).__module__ in PYTORCH_LOSSES:
        name = type(loss).__name__ if is_module else loss.__name__
        call = f"{name}()" if is_module else name
        raise OptionError(
            f"loss gets ({given}), but {name} takes tensors; write "
            f"loss=lambda {given}: {call}(output, batch.y)."
        )


def _check_optimizer(optimizer: Optimizer, model: nn.Module, loss: object) -> None:
    name = type(optimizer).__name__
    known = {id(weight) for weight in model.parameters()}
    if isinstance(loss, nn.Module):
        known |= {id(weight) for weight in loss.parameters()}
    given = [weight for group in optimizer.param_groups for weight in group["params"]]
    frozen = not any(weight.requires_grad for weight in model.parameters())
    if not frozen and not any(id(weight) in known for weight in given):
        raise OptionError(
            f"{name} trains no weight of the model {type(model).__name__}; build it "
            "with the parameters() of this very model, or freeze the model."
        )


def check_choices(
    clip: object, call: object, autocast: object, capture: bool, padded_loss: bool
) -> None:
    check_flag("padded_loss", padded_loss)
    number = isinstance(clip, Real) and not isinstance(clip, bool)
    if clip is not None and not (number and float(clip) > 0):  # type: ignore[arg-type]
        raise OptionError(f"clip is {clip!r}; give a number greater than 0, or None.")
    if call is not None and not callable(call):
        raise OptionError(
            f"call is {described(call)}; give a function call(model, batch), or None."
        )
    check_flag("capture", capture)
    if autocast is not None and autocast not in AUTOCAST:
        raise OptionError(
            f"autocast is {autocast!r}; give torch.bfloat16, torch.float16 or None."
        )


def checked_loss(value: object) -> Tensor:
    """Return the loss, one number with a gradient, or raise `OptionError`."""
    if not isinstance(value, Tensor):
        kind = kind_of(value)
        raise OptionError(f"loss returned {kind}; return a tensor with one number.")
    if value.numel() != 1:
        raise OptionError(
            f"loss returned a tensor of shape {list(value.shape)}; return one number, "
            "for example its mean."
        )
    if not value.requires_grad:
        raise OptionError(
            "loss returned a tensor without gradient; compute it from the output, "
            "without detach() or torch.no_grad(), from a model with weights that are "
            "not frozen."
        )
    return value.reshape(()) if value.dim() else value
