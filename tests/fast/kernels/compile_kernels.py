"""A program that compiles every Triton kernel for a GPU, on a machine without one."""

import importlib
import json
import pkgutil
import sys

import torch
import torch.distributed as dist
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from gnnak.fast.kernels import gpu
from gnnak.fast.kernels.gpu import product
from gnnak.fast.kernels.records import CentroidRows, GatedPool, HopLinears, Lifted
from gnnak.fast.layers.norm import GivenNorm
from gnnak.nn.base.ppgn import find_pairs
from tests.fast.kernels.kernel_inputs import (
    constants,
    edges_of,
    groups_of,
    norm_of,
    rows,
)
from tests.no_gpu import NoGpu

SHARED_MEMORY = {90: 232_448, 89: 101_376}
"""Largest shared memory of a program in bytes, by compute capability."""


def kernels():
    """Return all kernels by "module.name", without the functions that they call."""
    found = {}
    for module in pkgutil.iter_modules(gpu.__path__, f"{gpu.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            own = isinstance(value, JITFunction) and value.__module__ == module.name
            if own and name.startswith("_"):
                found[f"{module.name.rsplit('.', 1)[-1]}.{name}"] = value
    return found


def call_all(
    width, padded, gated, sizes=(3, 0, 40), edge_copies=60, size=9, dtype=torch.float
):
    """Call all functions that launch kernels, on rows of this dtype."""
    groups, key = groups_of(list(sizes), shuffled=gated)
    m, real = len(key), torch.tensor(20) if padded else None
    h, c, e = (rows(count, width).to(dtype) for count in (m, m, size))
    gate = rows(4, width).float() if gated else None
    index, edges = torch.randint(4, (m,)), edges_of(m, edge_copies, size)
    k = constants(h, of_batch=padded, real=real)
    k = type(k)(*(part.float() for part in k[:4]), *k[4:])
    gpu.lift(c, gate, key, index)
    gpu.lift(c, gate, key, index, add=gated)
    gpu.add_lifted(h, c, index)
    gpu.sum_by(h, groups)
    gpu.sum_by(h, groups, None, (key, key.double()))
    gpu.table_sum(h, index, 4)
    more = h if gated else None
    for states in (c, Lifted(c, rows(2, width).to(dtype), key, index)):
        gpu.messages(states, e, torch.zeros(1), edges)
        gpu.messages_backward(h, states, e, torch.zeros(1), edges, more)
        same = edges._replace(by_edge=None)
        gpu.messages(states, e[:1], torch.zeros(1), same)
        gpu.messages_backward(h, states, e[:1], torch.zeros(1), same, more)
    end, groups_of_ends = (
        (edges.source, edges.by_target) if gated else (edges.target, edges.by_source)
    )
    scale = gpu.gcn_scale(c, edges)
    gpu.gcn_sum(h, scale, k.shift if gated else None, end, groups_of_ends)
    gpu.norm_constants(h, norm_of(width).float(), real)
    gpu.norm_act(h, k, gated, h if gated else None)
    gpu.norm_act_backward(h, c, k, gated)
    call_products(width, padded, gated, m, dtype)
    gpu.gate_pool(h, k, gate, index, groups)
    gpu.gate_pool(h, k, c, None, groups)
    call_gated(h, c, gate, index, groups, key)
    call_tables(width, gated)
    pooled = rows(len(sizes), width).float()
    gpu.gate_pool_backward(pooled, h, k, gate, index, key, c)
    gpu.gate_pool_backward(pooled, h, k, h.clone(), None, key, c)
    # As if several processes trained together.
    norm = norm_of(width).float()
    parts = norm.running_mean, norm.running_var, norm.weight, norm.bias
    tracked = norm.num_batches_tracked
    norm = GivenNorm(*parts, norm.momentum, norm.eps, real, True, tracked, True)
    gpu.norm_constants(h, norm, real)
    k = k._replace(of_batch=True, total=k.scale.clone())
    gpu.norm_act_backward(h, c, k, gated)
    gpu.gate_pool_backward(pooled, h, k, gate, index, key, c)
    call_for_other_convs(c, e, edges)
    call_pairs(width, [*(min(size, 20) for size in sizes), 5, 9])


def call_pairs(width, sizes):
    pairs = find_pairs(torch.repeat_interleave(torch.tensor(sizes)))
    x = rows(pairs.num_pairs, width).float()
    gpu.pair_product_backward(gpu.pair_product(x, x, pairs), x, x, pairs)
    gpu.pool_pairs_backward(gpu.pool_pairs(x, pairs), pairs)
    gpu.pool_product_backward(gpu.pool_product(x, x, pairs), x, x, pairs)


def call_gated(h, c, gate, index, groups, key):
    table = c[:4].contiguous() if gate is None else gate
    pools = [GatedPool(groups, key)] * 2
    (sums,) = gpu.gated_sums(h, [table], pools[:1], index)
    gpu.gated_sums(h, [gate, None], pools, index)
    gpu.gated_sums(h, [c, c], pools, None)
    heads = None if gate is None else CentroidRows(sums, groups.ptr[:-1], key)
    gpu.gated_sums_backward(h, [sums, sums], [gate, table], pools, index, heads)
    gpu.gated_sums_backward(h, [sums], [gate], pools[:1], index, None)
    gpu.gated_sums_backward(h, [sums, sums], [c, c.clone()], pools, None, heads)


def call_tables(width, gated):
    d, weights = rows(5, 16).float(), [rows(width, 16).float() for _ in range(3)]
    biases = [weight[:, 0].contiguous() for weight in weights[:-1]]
    linears = HopLinears(weights, biases) if gated else HopLinears(weights[:1], [])
    tables = gpu.hop_tables(d, linears)
    gpu.hop_tables_backward(d, linears, tables, tables)


def call_products(width, padded=True, gated=True, m=40, dtype=torch.float):
    real = torch.tensor(20) if padded else None
    h, s = rows(m, width).to(dtype), rows(m, width).to(dtype) if gated else None
    k = constants(h, of_batch=padded, real=real)
    k = type(k)(*(part.float() for part in k[:4]), *k[4:])
    matrix, grad = rows(2 * width, width).float(), rows(m, 2 * width).to(dtype)
    known, offset = k if padded or gated else None, k.shift.repeat(2)
    gpu.norm_linear(h, known, matrix, offset if gated else None, real)
    key = torch.arange(m)
    more = CentroidRows(h, key, key) if gated else None
    gpu.norm_linear_backward(grad, h, k, s, matrix, more, torch.empty_like(h))
    gpu.norm_act_at(h, k, s, key, gated)


def call_for_other_convs(c, e, edges):
    scale = gpu.gcn_scale(c, edges)
    gpu.gcn_sum(c, scale, None, edges.source, edges.by_target)
    gpu.gcn_sum(c, scale, c[0], edges.target, edges.by_source)
    message, _ = gpu.pair_sum(c, c, e, edges)
    gpu.pair_sum(c, c, None, edges, torch.tensor(2))
    pooled = gpu.pna_pool(message, edges.by_target)
    gpu.pna_pool_backward(pooled, message, pooled, edges.by_target)


def call_widths():
    """Call every function with other widths, and products for an older GPU."""
    for width in (64, 144):
        call_all(width, padded=True, gated=True)
    call_all(64, padded=False, gated=False)
    call_all(144, padded=True, gated=True, dtype=torch.bfloat16)
    for sizes in ((2,), (1,)):
        call_all(1, padded=True, gated=True, sizes=sizes, edge_copies=1, size=1)
    call_all(300, padded=False, gated=False, sizes=(3000, 2), edge_copies=5000)
    product.MANY_ROWS = 0
    call_products(144)
    driver.set_active(NoGpu(89))
    product._most_stages = lambda device: 2
    call_products(144)
    product.MANY_ROWS = 2**16
    call_products(144)


def misaligned(argument):
    """Copy index tensors to an address that is not aligned to 16 bytes."""
    kinds = (torch.long, torch.double)
    if not isinstance(argument, torch.Tensor) or argument.dtype not in kinds:
        return argument
    return argument.new_empty(argument.numel() + 1)[1:].view(argument.shape)


def main() -> None:
    """Print as JSON all kernels, those made, and those compiled again needlessly."""
    torch.set_float32_matmul_precision("high")
    known, made, again, place = kernels(), {}, set(), [lambda argument: argument]
    names = {id(kernel): name for name, kernel in known.items()}

    def compile_only(kernel, grid):
        def launch(*arguments, **options):
            arguments = list(map(place[0], arguments))
            code = kernel.warmup(*arguments, grid=grid, **options)
            assert all(size > 0 for size in grid)
            generation = driver.active.get_current_target().arch
            name = names[id(kernel)]
            assert code.metadata.shared <= SHARED_MEMORY[generation], name
            if place[0] is misaligned and code.hash not in made[name]:
                again.add(name)
            made.setdefault(name, {})[code.hash] = len(code.asm["cubin"])

        return launch

    JITFunction.__getitem__ = compile_only
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    driver.set_active(NoGpu(90))
    for padded in (True, False):
        call_all(32, padded, padded, sizes=(3, 0, 40), edge_copies=60, size=9)
        place[0] = misaligned
        call_all(32, padded, padded, sizes=(1,), edge_copies=1, size=1)
        call_all(32, padded, padded, sizes=(16, 32), edge_copies=64, size=32)
        place[0] = lambda argument: argument
    call_all(32, padded=True, gated=True, dtype=torch.bfloat16)
    if "--widths" in sys.argv:
        call_widths()
    found = {"known": sorted(known), "made": made, "again": sorted(again)}
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
