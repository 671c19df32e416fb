"""One product over several devices, by JAX's own sharding; what was exchanged is read from the program.

The same call works in one process and in many. A program for many is started once on every host, by whatever
starts programs there, and joins its peers before JAX does anything else::

    import jax
    jax.distributed.initialize()
    from pulsewarp import bench
    run = bench.time_sharded(8192, 8192, 8192, dtype="bfloat16", split="contraction", gather=True)
    if jax.process_index() == 0:
        bench.save("sharded.json", [run])

On a Cloud TPU slice, under Slurm and under Open MPI ``initialize()`` finds its peers by itself; elsewhere it
takes ``coordinator_address="HOST:PORT"``, ``num_processes`` and ``process_id`` ("Introduction to
multi-controller JAX" and "jax.distributed.initialize", docs.jax.dev, read 2026-12-01). With the
program in ``sharded.py``:

- TPU slice, one process a host: ``gcloud compute tpus tpu-vm ssh $TPU_NAME --zone=$ZONE --worker=all
  --command="python3 sharded.py"``, with the file on every host ("Run JAX code on TPU slices",
  docs.cloud.google.com/tpu/docs/jax-pods, read 2026-12-01; that interface does not know TPU7x).
- GPU cluster under Slurm, one process a GPU, which is what JAX assumes there:
  ``srun --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 python3 sharded.py``. One process a host instead:
  pass ``local_device_ids=range(8)`` to ``initialize``.
- Kubernetes, GKE included: one pod a process, which passes the address of pod 0, the number of pods and its
  own index to ``initialize``.
- CPUs, to try it: the same with ``JAX_PLATFORMS=cpu``; JAX before 0.5 also needs
  ``jax.config.update("jax_cpu_collectives_implementation", "gloo")`` first.

Every process must make the same calls in the same order, with the same arguments: all wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp._text import counted
from pulsewarp.bench import card, host
from pulsewarp.bench.collectives import Collective, read_collectives
from pulsewarp.bench.hlo import read_program
from pulsewarp.bench.live import _observe
from pulsewarp.bench.live._clock import (
    FEWEST_REPEATS,
    MOST_REPEATS,
    MOST_REPEATS_BY_TIME,
    call_once,
    memory_named,
    warm_up,
)
from pulsewarp.bench.live._dtypes import catalogue_dtype, precision_setting, stored_dtype
from pulsewarp.bench.live._observe import import_jax, see_device
from pulsewarp.bench.live.errors import Accuracy, beyond, beyond_peak, compare, precision_of, remarks
from pulsewarp.bench.live.mesh import Layout, choose
from pulsewarp.bench.live.timing import Work, _factors, _refuse_overflow
from pulsewarp.bench.measurement import PRECISIONS, in_words
from pulsewarp.bench.rounding import expected_error
from pulsewarp.bench.sharded_measurement import SPLITS, ShardedMeasurement, local_product, share
from pulsewarp.matmul import BYTES, Matmul

SCALINGS = ("strong", "weak")
# Programs that wait for each other must be called equally often by every process, whatever the time.
_AGREED_WARM_UP, _AGREED_REPEATS = 3, 10
_ROWS, _FEWEST_ROWS = 64, 8  # of a result that are checked, and of each share at least


@names_keywords
def time_sharded(
    m: int,
    k: int,
    n: int,
    *,
    split: str = "rows",
    gather: bool = False,
    devices: int | Sequence[Any] | None = None,
    dtype: str = "float32",
    precision: str | None = None,
    repeats: int | None = None,
    seed: int = 0,
    budget_seconds: float = 1.0,
) -> ShardedMeasurement:
    """Time one product whose work is split over several devices, and name what they exchange.

    The factors lie on the devices in shares beforehand. JAX is told where they lie and where the result is to
    lie, and its compiler chooses the exchange; which one, and of how many bytes, is read from the optimised
    program. Where there is one, a second program makes the same local products without it, and both are
    called in turn: the difference is what the exchange adds. Every share of the result is
    compared with float64.

    Timed is the call, dispatch included. With `jax.distributed` running, every process makes this call and
    gets a measurement of its own.

    Parameters
    ----------
    m, k, n : int
        Sizes of the whole product. The one that is split must be a multiple of the number of devices, and m
        too where a sum is scattered.
    split : {"rows", "columns", "contraction"}
        What is split: rows of A, columns of B, or the k along which both are summed.
    gather : bool
        Whether every device gets the whole result. Otherwise each keeps a share: of its rows or columns, and
        of the rows where the contraction is split.
    devices : int or sequence of JAX devices, optional
        The first so many, or these. Left out: all that JAX has, those of other processes included.
    dtype, precision, repeats, seed, budget_seconds
        As for `time_matmul`; between processes the budget is not looked at, 10 repeats are made.

    Returns
    -------
    ShardedMeasurement

    Raises
    ------
    ValueError
        A size that cannot be shared, or anything that `time_matmul` refuses.
    MemoryError
        The shares do not fit.
    RuntimeError
        JAX gives no device, or the processes cannot exchange data.

    Examples
    --------
    >>> run = time_sharded(64, 64, 64, split="contraction", devices=1, repeats=2, precision="highest")
    >>> run.collective, run.relative_error < 1e-6
    ('none', True)
    """
    stored = stored_dtype(dtype)
    matmul = Matmul(m, k, n, catalogue_dtype(stored))
    _refuse_overflow(matmul)
    choice("split", split, SPLITS)
    if not isinstance(gather, bool):
        raise TypeError(f"gather is {gather!r}, but must be True or False.")
    seed = whole_number("seed", seed, least=0)
    budget_seconds = positive_number("budget_seconds", budget_seconds)
    if repeats is not None:
        repeats = whole_number("repeats", repeats, most=MOST_REPEATS)
    if precision is not None:
        precision = choice("precision", precision, PRECISIONS)
    jax = import_jax()
    chosen = choose(jax, devices)
    local_product(matmul, split, len(chosen))
    if split == "contraction" and not gather:
        share("m", m, "rows of the summed result", len(chosen))
    seen = _describe(jax, chosen)
    _fits(matmul, split, gather, len(chosen), seen)
    layout = Layout(jax, matmul, split, gather, chosen, precision or precision_setting(jax))
    with memory_named(in_words(matmul, stored=stored), "take smaller sizes"), _exchange_explained():
        return _time(layout, stored, seen, repeats, seed, budget_seconds)


@names_keywords
def scaling(
    m: int,
    k: int,
    n: int,
    *,
    split: str = "rows",
    kind: str = "strong",
    gather: bool = False,
    counts: Iterable[int] | None = None,
    devices: Sequence[Any] | None = None,
    dtype: str = "float32",
    precision: str | None = None,
    repeats: int | None = None,
    seed: int = 0,
    budget_seconds: float = 1.0,
) -> list[ShardedMeasurement]:
    """Time a product on one device, on two, and so on.

    Strong scaling keeps the product: each device has less to do. Weak scaling keeps each device's share: the
    size that is split grows with the devices.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product, for weak scaling that on one device.
    split, gather, dtype, precision, repeats, seed, budget_seconds
        As for `time_sharded`; the budget is for each number of devices.
    kind : {"strong", "weak"}
        What stays the same.
    counts : iterable of int, optional
        Numbers of devices. Left out: 1, 2, 4, and so on up to all.
    devices : sequence of JAX devices, optional
        As for `time_sharded`; the first of them are used.

    Returns
    -------
    list of ShardedMeasurement
        One for each number of devices, in that order.

    Raises
    ------
    ValueError, MemoryError, RuntimeError
        As `time_sharded`, and for more devices than there are; sizes are checked before anything is timed.

    Examples
    --------
    >>> [run.devices for run in scaling(64, 64, 64, counts=[1], repeats=1)]
    [1]
    """
    choice("kind", kind, SCALINGS)
    choice("split", split, SPLITS)
    jax = import_jax()
    chosen = choose(jax, devices)
    if counts is None:
        counts = [2**power for power in range(len(chosen).bit_length())]
    listed = several("counts", counts, "write [1, 2, 4]")
    numbers = [whole_number(f"counts[{i}]", each, most=len(chosen)) for i, each in enumerate(listed)]
    products = [_grown(Matmul(m, k, n), split, number if kind == "weak" else 1) for number in numbers]
    for product, number in zip(products, numbers, strict=True):
        local_product(product, split, number)
    return [
        time_sharded(
            product.m,
            product.k,
            product.n,
            split=split,
            gather=gather,
            devices=chosen[:number],
            dtype=dtype,
            precision=precision,
            repeats=repeats,
            seed=seed,
            budget_seconds=budget_seconds,
        )
        for product, number in zip(products, numbers, strict=True)
    ]


def _grown(product: Matmul, split: str, factor: int) -> Matmul:
    """Return a product whose size that is split is so many times as large."""
    rows, columns = (factor if split == each else 1 for each in ("rows", "columns"))
    return Matmul(product.m * rows, product.k * factor // (rows * columns), product.n * columns)


def _describe(jax: ModuleType, chosen: Sequence[Any]) -> card.DeviceCard:
    """Return the card of these devices, which need not be the ones JAX prefers."""
    here = jax.process_index()
    missing = sorted(set(range(jax.process_count())) - {device.process_index for device in chosen})
    if missing and jax.process_count() > 1:
        raise ValueError(
            f"devices has none of process {missing[0]}, which would wait for the others for ever; "
            "take at least one device of every process."
        )
    own = tuple(see_device(device) for device in chosen if device.process_index == here)
    return card.describe(host.look(), card.SeenJax(jax.__version__, own))


def _fits(matmul: Matmul, split: str, gather: bool, devices: int, seen: card.DeviceCard) -> None:
    """Refuse a product whose shares cannot fit, before anything is allocated."""
    part = local_product(matmul, split, devices)
    stored, result = BYTES[matmul.dtype], BYTES[matmul.result_dtype]
    # A device's shares of both factors, its product, and the whole result where it gets that.
    a_device = (part.m * part.k + part.k * part.n) * stored + part.m * part.n * result
    a_device += matmul.m * matmul.n * result * gather
    on_host = (matmul.m * matmul.k + matmul.k * matmul.n) * (stored + 4)
    free = host.look().memory_free_bytes
    limits = [(on_host, free, "the host")]
    if seen.platform == "cpu":
        limits = [(on_host + a_device * seen.device_count, free, "this machine")]
    else:
        limits.append((a_device, seen.memory_free_bytes, f"each {seen.kind}"))
    for needed, there, where in limits:
        if there is not None and needed > there:
            raise MemoryError(
                f"{matmul.m} x {matmul.k} x {matmul.n} in {matmul.dtype}, {split} over "
                f"{counted(devices, 'device')}, needs about {needed / 2**30:.1f} GiB on {where}, but "
                f"{there / 2**30:.1f} GiB are free; take smaller sizes."
            )


def _time(
    layout: Layout, stored: str, seen: card.DeviceCard, repeats: int | None, seed: int, budget: float
) -> ShardedMeasurement:
    matmul, platform = layout.matmul, seen.platform or ""
    a, b = _factors(layout.jax, Work(matmul, stored), seed)
    placed = layout.place(a, b)
    program, compile_seconds, text = layout.sharded(placed)
    exchanges = _read_collectives(program, len(layout.devices))
    programs = [program]
    if exchanges != () and (alone := layout.local(placed)) and _makes_the_same(layout, program, alone):
        programs.append(alone)
    warm = _warm_up(layout, programs, placed)
    taken, result = _alternate(layout, programs, placed, repeats, budget)
    found = _check_shares(a, b, result, seed)
    bound = _expected_error(layout, platform, found.cancellation)
    each = matmul.flops / float(np.median(taken[0])) / len(layout.devices)
    notes = (
        *_sharing_remarks(layout, seen, exchanges, len(programs)),
        *remarks(matmul.dtype, platform, seen.kind or "", found.error, taken[0]),
        *beyond(found.error, bound, matmul.dtype, layout.precision),
        *beyond_peak(each, matmul.dtype, seen.chip, seen.devices_per_chip),
        *_observe.devices().fallback,  # not of `seen`: CPUs may have been chosen beside an accelerator in use
    )
    return ShardedMeasurement(
        matmul=matmul,
        stored=stored,
        split=layout.split,
        gather=layout.gather,
        devices=len(layout.devices),
        processes=layout.processes,
        device=seen.measured,
        clock="call",
        precision=layout.precision,
        precision_in_program=precision_of(text),
        seconds=taken[0],
        local_seconds=taken[1] if len(taken) > 1 else (),
        collectives=exchanges,
        products_per_repeat=1,
        compile_seconds=compile_seconds,
        warmup_calls=warm,
        relative_error=found.error,
        error_bound=bound,
        error_rows=found.rows,
        seed=seed,
        versions=seen.versions,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=notes,
    )


def _read_collectives(program: Any, devices: int) -> tuple[Collective, ...] | None:
    try:
        return read_collectives(read_program(program.as_text()), devices)
    except (NotImplementedError, ValueError):  # a backend that prints nothing, or nothing that can be read
        return None


def _makes_the_same(layout: Layout, program: Any, alone: Any) -> bool:
    """Whether a device computes as much in both programs, as far as XLA's own count says.

    The compiler may fetch factors and multiply more of them on every device instead of exchanging results;
    the difference of the times would then be no exchange.
    """
    counts = [_counted_flops(each) for each in (program, alone)]
    if None in counts:
        return True
    more = (counts[0] or 0.0) - (counts[1] or 0.0)
    # Adding up the devices' sums is part of the exchange, one operation for each element.
    return more <= layout.matmul.m * layout.matmul.n * (1.5 if layout.split == "contraction" else 0.5)


def _counted_flops(program: Any) -> float | None:
    try:
        costs = program.cost_analysis()
    except Exception:  # not every backend counts
        return None
    costs = costs[0] if isinstance(costs, list) and costs else costs  # a list before JAX 0.5
    flops = costs.get("flops") if isinstance(costs, dict) else None
    return float(flops) if flops and flops > 0 else None


def _warm_up(layout: Layout, programs: Sequence[Any], placed: tuple[Any, Any]) -> int:
    if layout.processes > 1:
        for program in programs:
            for _ in range(_AGREED_WARM_UP):
                call_once(layout.jax, program, placed)
        return _AGREED_WARM_UP
    return max(len(warm_up(layout.jax, program, placed)) for program in programs)


def _alternate(
    layout: Layout, programs: Sequence[Any], placed: tuple[Any, Any], repeats: int | None, budget: float
) -> tuple[list[tuple[float, ...]], Any]:
    """Seconds of every call of each program, called in turn, and what the first one returned last."""
    fewest, most = (FEWEST_REPEATS, MOST_REPEATS_BY_TIME) if repeats is None else (repeats, repeats)
    if layout.processes > 1 and repeats is None:
        fewest = most = _AGREED_REPEATS
    taken: list[list[float]] = [[] for _ in programs]
    result = None
    while len(taken[0]) < fewest or (len(taken[0]) < most and sum(map(sum, taken)) < budget):
        for i, program in enumerate(programs):
            seconds, returned = call_once(layout.jax, program, placed)
            taken[i].append(seconds)
            result = returned if i == 0 else result
    return [tuple(each) for each in taken], result


def _check_shares(a: NDArray[Any], b: NDArray[Any], result: Any, seed: int) -> Accuracy:
    """Compare every share of the result that this process can see with float64; the worst, and all rows."""
    found: list[Accuracy] = []
    random = np.random.default_rng(seed)
    shares = {str(shard.index) for shard in result.addressable_shards}
    most = max(_FEWEST_ROWS, _ROWS // len(shares))
    known: dict[str, NDArray[Any]] = {}
    for shard in result.addressable_shards:
        here, data = str(shard.index), np.asarray(shard.data)
        if here in known and np.array_equal(known[here], data):
            continue  # a copy, bit for bit
        known[here] = data
        of_rows, of_columns = shard.index
        rows = np.sort(random.choice(len(data), min(len(data), most), replace=False))
        found.append(compare(a[of_rows][rows], b[:, of_columns], data[rows], seed))
    errors, counts, cancellations = zip(*found, strict=True)
    return Accuracy(float(np.max(errors)), sum(counts), max(cancellations))


def _expected_error(layout: Layout, platform: str, cancellation: float) -> float | None:
    """Return what the error should not exceed; sums of a split contraction are rounded once more each.

    In a type with unit u, the sums of D devices are 1 / sqrt(D) of the result each, and their roundings u of
    it together; adding them up rounds D - 1 growing sums, at most u sqrt(D / 2) together.
    """
    matmul = layout.matmul
    bound = expected_error(matmul.dtype, layout.precision, platform, matmul.k, cancellation)
    if bound is None or layout.split != "contraction" or len(layout.devices) == 1:
        return bound
    return bound * (1 + math.sqrt(1 + len(layout.devices) / 2))


def _sharing_remarks(
    layout: Layout, seen: card.DeviceCard, exchanges: tuple[Collective, ...] | None, programs: int
) -> tuple[str, ...]:
    """Sentences that must stand beside times of several devices."""
    found = []
    if seen.platform == "cpu" and len(layout.devices) > layout.processes:
        found.append(
            f"The {len(layout.devices)} devices are one CPU presented as several, sharing "
            f"{counted(seen.cores, 'core')} and one memory: they show what sharding does (collective, "
            "bytes), not what it gains."
        )
    if layout.processes > 1:
        found.append(
            "Times are those of one process of several; it saw and checked only its own shares of the result."
        )
    if exchanges is None:
        found.append("The compiled program could not be read, so the collective is unknown.")
    elif exchanges and programs == 1:
        found.append(
            "The compiler gave each device more to compute than its share, so that what the exchange adds "
            "is unknown."
        )
    return tuple(found)


@contextmanager
def _exchange_explained() -> Iterator[None]:
    """Say what to do where CPUs of several processes exchange nothing, as before JAX 0.5."""
    try:
        yield
    except Exception as error:
        if "Multiprocess computations aren't implemented on the CPU" not in str(error):
            raise
        raise RuntimeError(
            "These processes cannot exchange data between CPUs; call jax.config.update("
            "'jax_cpu_collectives_implementation', 'gloo') before jax.distributed.initialize()."
        ) from error
