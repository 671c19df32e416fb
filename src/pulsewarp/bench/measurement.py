"""Timed work as values: the matrix product, what it shares with every other kind, and the form on disk.

A file of the form ``pulsewarp-measurements/2`` is one JSON object::

    {"form": "pulsewarp-measurements/2", "measurements": [ ... ]}

Each measurement is an object with ``"kind"`` and exactly the fields of that kind's class: ``"matmul"`` is
`Measurement`, ``"kernel"`` is `KernelMeasurement`, ``"sharded"`` is `ShardedMeasurement`. Times are in
seconds. Every kind has these fields, all those of `Timed`:

====================== ==========================================================================
``device``              object: ``platform``, ``kind`` (JAX's names), ``chip`` (catalogue id or
                        null), ``devices_per_chip``, ``cpu_model`` and ``cores`` of the host
``clock``               ``"device"`` or ``"call"``, see `Timed`
``seconds``             seconds per product (or other unit of work), one number for each repeat,
                        none left out
``products_per_repeat`` products (units of work) in one repeat
``compile_seconds``     lowering and compiling the timed program, apart from ``seconds``
``warmup_calls``        calls made and thrown away before the first repeat
``versions``            object: package name to version
``when``                end of the measurement, ISO 8601 with its offset
``origin``              ``"live"`` or ``"recorded"``
``notes``               list of sentences that belong beside the number
====================== ==========================================================================

A matrix product has these as well:

======================== ========================================================================
``matmul``                object: ``m``, ``k``, ``n`` of A (m x k) times B (k x n), and ``dtype``,
                          the catalogue name of the factors' type, such as ``"fp32"``
``stored``                JAX's name of the type in which the factors lie on the device, such as
                          ``"float32"``; it tells the two 8-bit floats apart
``batch``                 how many such products one batched product makes
``transposed``            which factors lie transposed in memory: ``""``, ``"a"``, ``"b"`` or
                          ``"ab"``
``precision``             what was asked for: ``"default"``, ``"high"`` or ``"highest"``
``precision_in_program``  what the compiled program carries
``relative_error``        against float64, Frobenius norm over the sampled rows
``error_bound``           what that error should not exceed, or null, see `Measurement`
``error_rows``            rows sampled for it
``seed``                  of the random factors
======================== ========================================================================

Nothing is derived on disk: medians, quartiles and rates are computed from ``seconds`` when read.

The earlier form ``pulsewarp-measurements/1`` is still read: its rows are matrix products without ``kind``,
with ``m``, ``k``, ``n`` and ``dtype`` beside the other fields, not batched, not transposed, without a bound.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, overload

import numpy as np

from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp._files import read_json, write_text_atomically
from pulsewarp._text import counted
from pulsewarp.bench import _rows
from pulsewarp.matmul import Matmul

T = TypeVar("T", bound="Timed")

FORM = "pulsewarp-measurements/2"
EARLIER_FORM = "pulsewarp-measurements/1"
CLOCKS = ("device", "call")
PRECISIONS = ("default", "high", "highest")
ORIGINS = ("live", "recorded")
TRANSPOSED = ("", "a", "b", "ab")
STORED = MappingProxyType(
    {
        "fp64": "float64",
        "fp32": "float32",
        "tf32": "float32",
        "bf16": "bfloat16",
        "fp16": "float16",
        "fp8": "float8_e4m3fn",
        "int8": "int8",
        "fp4": "float4_e2m1fn",
        "int4": "int4",
    }
)
"""JAX's name of the type in which factors of a catalogue dtype lie on the device."""

_PREFIXES = {-12: "p", -9: "n", -6: "\u00b5", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


@dataclass(frozen=True)
class MeasuredDevice:
    """The device that made a measurement.

    Parameters
    ----------
    platform, kind : str
        JAX's names, such as ``"tpu"`` and ``"TPU v5 lite"``.
    chip : str or None
        Catalogue id; None when the catalogue does not know the device.
    devices_per_chip : int
        2 where each core of a chip is a device of its own; the device then has half the chip's peak.
    cpu_model : str
        The host's processor as the system names it.
    cores : int
        Host cores the process could use.

    Examples
    --------
    >>> MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2).label
    'Example CPU, 2 cores'
    """

    platform: str
    kind: str
    chip: str | None
    devices_per_chip: int
    cpu_model: str
    cores: int

    def __post_init__(self) -> None:
        for name in ("platform", "kind", "cpu_model"):
            _text(name, getattr(self, name))
        if self.chip is not None:
            _text("chip", self.chip)
        whole_number("devices_per_chip", self.devices_per_chip)
        whole_number("cores", self.cores)

    @property
    def label(self) -> str:
        """The device in a few words: the CPU by its model, anything else by JAX's kind."""
        if self.platform != "cpu":
            return self.kind
        return f"{self.cpu_model}, {counted(self.cores, 'core')}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Timed(ABC):
    """Work timed many times on one device; `Measurement` and its siblings say what work.

    Two clocks, never mixed. ``"call"`` is what a Python loop sees: one call, waited for, dispatch
    included. ``"device"`` is a chain of the same work inside one compiled program, each link needing
    the result of the one before it, divided by the number of links; the dispatch of the one call is
    spread over the chain.

    A subclass names its kind on disk, ``class Sorted(Timed, kind="sorted")`` under
    ``@dataclass(frozen=True, kw_only=True, repr=False)``, and adds fields of the types that `_rows`
    understands; saving, loading, checking and showing them needs nothing more.

    Parameters
    ----------
    device : MeasuredDevice
        Where it ran.
    clock : {"device", "call"}
        Which of the two clocks.
    seconds : tuple of float
        Seconds per product (or other unit of work), one for each repeat, all kept.
    products_per_repeat : int
        Products (units of work) in one repeat; 1 for the call clock.
    compile_seconds : float
        Lowering and compiling, in seconds; not part of `seconds`.
    warmup_calls : int
        Calls thrown away before the first repeat.
    versions : mapping of str to str
        Package versions.
    when : str
        ISO 8601 with offset.
    origin : {"live", "recorded"}
        Measured in this session, or read from a recorded run.
    notes : tuple of str
        Sentences that belong beside the number.

    Raises
    ------
    ValueError
        When a field cannot be true: no repeats, a time that is not above zero, NaN, a clock that
        is not known, a date that is none.
    """

    kind: ClassVar[str]
    """How a file names this kind of work."""

    device: MeasuredDevice
    clock: str
    seconds: tuple[float, ...]
    products_per_repeat: int
    compile_seconds: float
    warmup_calls: int
    versions: Mapping[str, str] = field(hash=False)
    when: str
    origin: str = "live"
    notes: tuple[str, ...] = ()

    def __init_subclass__(cls, *, kind: str, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.kind = kind
        if kind:  # what several kinds share has none itself
            _KINDS[kind] = cls

    def __post_init__(self) -> None:
        choice("clock", self.clock, CLOCKS)
        choice("origin", self.origin, ORIGINS)
        if not self.seconds:
            raise ValueError("seconds is empty, but a measurement needs at least one repeat.")
        seconds = tuple(positive_number(f"seconds[{i}]", value) for i, value in enumerate(self.seconds))
        object.__setattr__(self, "seconds", seconds)
        whole_number("products_per_repeat", self.products_per_repeat)
        positive_number("compile_seconds", self.compile_seconds, zero=True)
        whole_number("warmup_calls", self.warmup_calls, least=0)
        for name, version in self.versions.items():
            _text(f"versions[{name!r}]", version)
        object.__setattr__(self, "versions", MappingProxyType(dict(sorted(self.versions.items()))))
        object.__setattr__(self, "notes", tuple(self.notes))
        for i, note in enumerate(self.notes):
            _text(f"notes[{i}]", note)
        _moment(self.when)

    @property
    @abstractmethod
    def title(self) -> str:
        """The work in a few words, such as "128 x 256 x 64 fp32"."""

    @property
    def what(self) -> tuple[tuple[str, Any], ...]:
        """What was timed, by name, without how and where: two runs of the same work agree in it."""
        return (("work", self.title),)

    @property
    def facts(self) -> tuple[str, ...]:
        """What else the repr says between the times and the notes, a line each."""
        return ()

    @property
    def median(self) -> float:
        """Median of `seconds`."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile of `seconds`."""
        low, high = np.quantile(self.seconds, (0.25, 0.75))
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """Distance between the quartiles as a fraction of the median."""
        low, high = self.quartiles
        return (high - low) / self.median

    def __repr__(self) -> str:
        low, high = self.quartiles
        lines = (
            f"{type(self).__name__}({self.title} on {self.device.label}, {self.origin} {self.when}",
            f"  {self.clock} clock: median {with_prefix(self.median, 's')}, quartiles "
            f"{with_prefix(low, 's')} to {with_prefix(high, 's')}, "
            f"{len(self.seconds)} repeats of {self.products_per_repeat}",
            *(f"  {fact}" for fact in self.facts),
            f"  compiled in {with_prefix(self.compile_seconds, 's')}, apart from the times above",
            *(f"  {note}" for note in self.notes),
        )
        return "\n".join(lines) + ")"


_KINDS: dict[str, type[Timed]] = {}
# Kinds that have a file of their own; it is imported when a row of that kind is read.
_HOMES = {
    "kernel": "pulsewarp.bench.kernel_measurement",
    "sharded": "pulsewarp.bench.sharded_measurement",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TimedProduct(Timed, kind=""):
    """A matrix product, timed many times: what `Measurement` and `ShardedMeasurement` share.

    Parameters
    ----------
    matmul : Matmul
        The product; its dtype is the catalogue's name.
    stored : str
        JAX's name of the factors' type. Left out: the one that belongs to the dtype.
    precision, precision_in_program : str
        Asked for, and found in the program that ran.
    relative_error : float
        ``norm(result - exact) / norm(exact)`` over the sampled rows, exact in float64.
    error_bound : float or None
        What `relative_error` should not exceed for random factors of this k at this precision, as
        `pulsewarp.bench.rounding.expected_error` has it with its formula and source; None where a
        file does not say.
    error_rows : int
        Rows sampled.
    seed : int
        Of the random factors.
    """

    matmul: Matmul
    stored: str = ""
    precision: str
    precision_in_program: str
    relative_error: float
    error_bound: float | None = None
    error_rows: int
    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stored", self.stored or STORED[self.matmul.dtype])
        _text("stored", self.stored)
        choice("precision", self.precision, PRECISIONS)
        _text("precision_in_program", self.precision_in_program)
        positive_number("relative_error", self.relative_error, zero=True)
        if self.error_bound is not None:
            positive_number("error_bound", self.error_bound, zero=True)
        whole_number("error_rows", self.error_rows)
        whole_number("seed", self.seed, least=0)

    @property
    def flops(self) -> int:
        """Operations of the product."""
        return self.matmul.flops

    @property
    def flops_per_second(self) -> float:
        """Operations divided by the median time, in FLOP/s (OP/s for integers)."""
        return self.flops / self.median

    @property
    def facts(self) -> tuple[str, ...]:
        """Rate, precision and error."""
        rate = "OP/s" if self.matmul.dtype.startswith("int") else "FLOP/s"
        expected = "" if self.error_bound is None else f", expected at most {self.error_bound:.1e}"
        return (
            f"{with_prefix(self.flops_per_second, rate)}, precision {self.precision} "
            f"(program: {self.precision_in_program}), relative error {self.relative_error:.1e}{expected}",
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Measurement(TimedProduct, kind="matmul"):
    """One matrix product on one device; see `Timed` for clock and times, `TimedProduct` for the other fields.

    Parameters
    ----------
    batch : int
        How many such products one batched product makes, each of factors of its own. `seconds` are for
        the whole batch.
    transposed : {"", "a", "b", "ab"}
        Which factors lie transposed on the device: with "a" the left one as (k, m), with "b" the right one
        as (n, k). The product is the same.

    Raises
    ------
    ValueError
        When a field cannot be true.

    Examples
    --------
    >>> cpu = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
    >>> run = Measurement(
    ...     matmul=Matmul(100, 100, 100, "fp32"), device=cpu, clock="device", precision="highest",
    ...     precision_in_program="highest", seconds=(2e-4, 1e-4, 4e-4), products_per_repeat=50,
    ...     compile_seconds=0.03, warmup_calls=3, relative_error=1e-7, error_bound=3e-7, error_rows=64,
    ...     seed=0, versions={"jax": "0.7.2"}, when="2026-11-30T12:00:00+00:00")
    >>> run.flops_per_second
    10000000000.0
    """

    batch: int = 1
    transposed: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("batch", self.batch)
        choice("transposed", self.transposed, TRANSPOSED)

    @property
    def flops(self) -> int:
        """Operations of the product, of all in the batch."""
        return self.batch * self.matmul.flops

    @property
    def bytes_moved(self) -> int:
        """Bytes that the product must move at least, those of all in the batch."""
        return self.batch * self.matmul.bytes_moved

    @property
    def title(self) -> str:
        """Shape, batch, type and how the factors lie."""
        return in_words(self.matmul, self.batch, self.transposed, self.stored)

    @property
    def what(self) -> tuple[tuple[str, Any], ...]:
        """Shape, batch, layout and type."""
        matmul = self.matmul
        sizes = (("m", matmul.m), ("k", matmul.k), ("n", matmul.n), ("batch", self.batch))
        return (*sizes, ("transposed", self.transposed), ("dtype", self.stored))


def in_words(matmul: Matmul, batch: int = 1, transposed: str = "", stored: str = "") -> str:
    """Name a product in a few words.

    Parameters
    ----------
    matmul : Matmul
        Shape and dtype.
    batch, transposed, stored
        As in `Measurement`.

    Returns
    -------
    str

    Examples
    --------
    >>> in_words(Matmul(8, 4, 2, "fp8"), 16, "b", "float8_e5m2")
    '16 x (8 x 4 x 2) fp8 (float8_e5m2), b transposed'
    """
    shape = f"{matmul.m} x {matmul.k} x {matmul.n}"
    shape = shape if batch == 1 else f"{batch} x ({shape})"
    exactly = "" if stored in ("", STORED[matmul.dtype]) else f" ({stored})"
    lie = {"": "", "ab": ", both transposed"}.get(transposed, f", {transposed} transposed")
    return f"{shape} {matmul.dtype}{exactly}{lie}"


def with_prefix(value: float, unit: str) -> str:
    """Write a quantity with an SI prefix and three significant digits.

    Parameters
    ----------
    value : float
        In base units.
    unit : str
        The base unit.

    Returns
    -------
    str

    Examples
    --------
    >>> with_prefix(4.5e10, "FLOP/s"), with_prefix(0.00125, "s"), with_prefix(999.9e9, "B/s")
    ('45.0 GFLOP/s', '1.25 ms', '1.00 TB/s')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    rounded = float(f"{value:.3g}")  # first: 999.9 G is 1.00 T, not 1000 G
    exponent = min(15, max(-12, 3 * math.floor(math.log10(abs(rounded)) / 3 + 1e-12)))
    number = rounded / 10.0**exponent
    digits = max(0, 2 - math.floor(math.log10(abs(number)) + 1e-12))
    return f"{number:.{digits}f} {_PREFIXES[exponent]}{unit}"


@names_keywords
def save(path: str | os.PathLike[str], measurements: Iterable[Timed]) -> Path:
    """Write measurements as one file of the form ``pulsewarp-measurements/2``.

    The file is written beside `path` and renamed over it, so an interrupt or a full disk leaves
    the earlier file whole.

    Parameters
    ----------
    path : path
        File to write; its folder must exist.
    measurements : iterable of Timed
        Of any kinds, in the order to keep.

    Returns
    -------
    Path
        The path written.

    Raises
    ------
    ValueError
        When an item is no measurement.
    OSError
        When the folder cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(load(save(pathlib.Path(folder) / "run.json", recorded()))) == len(recorded())
    True
    """
    return write_text_atomically(path, dumps(measurements))


@overload
def load(path: str | os.PathLike[str]) -> tuple[Timed, ...]: ...


@overload
def load(path: str | os.PathLike[str], only: type[T]) -> tuple[T, ...]: ...


@names_keywords
def load(path: str | os.PathLike[str], only: type[Timed] = Timed) -> tuple[Timed, ...]:
    """Read a file of the form ``pulsewarp-measurements/2`` or 1, checking every field.

    Parameters
    ----------
    path : path
        File to read.
    only : type
        The class of measurements to return, such as `Measurement`; the others are checked and left out.

    Returns
    -------
    tuple of Timed
        Equal to what was saved, bit for bit.

    Raises
    ------
    ValueError
        When the file is cut short, foreign, of another version, or holds a field that is missing,
        unknown or impossible: one sentence with the path, the place and the value.
    FileNotFoundError
        When there is no such file.

    Examples
    --------
    >>> load("no such file.json")
    Traceback (most recent call last):
    ...
    FileNotFoundError: There is no file no such file.json; `pulsewarp bench --out FILE` writes one.
    """
    if not (isinstance(only, type) and issubclass(only, Timed)):
        raise TypeError(f"only is {only!r}, but must be a class of measurements, such as bench.Measurement.")
    try:
        document = read_json(path, FORM, earlier=(EARLIER_FORM,))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no file {path}; `pulsewarp bench --out FILE` writes one."
        ) from None
    extra = sorted(set(document) - {"form", "measurements"})
    rows = document.get("measurements")
    if extra or not isinstance(rows, list):
        found = f"the unknown field {extra[0]!r}" if extra else "no list 'measurements'"
        raise ValueError(
            f"{path} has {found}; a file of the form {FORM!r} has 'form' and 'measurements' alone."
        )
    read = _from_row if document["form"] == FORM else _from_earlier_row
    runs = tuple(read(row, f"{path}, measurement {i}") for i, row in enumerate(rows))
    return tuple(run for run in runs if isinstance(run, only))


def dumps(measurements: Iterable[Timed]) -> str:
    r"""Return the text that `save` writes.

    Parameters
    ----------
    measurements : iterable of Timed
        In the order to keep.

    Returns
    -------
    str
        JSON, one measurement a line, so that a change to one shows as one line in a diff.

    Raises
    ------
    ValueError
        When an item is no measurement.

    Examples
    --------
    >>> dumps([])
    '{"form": "pulsewarp-measurements/2", "measurements": [\n]}\n'
    """
    rows = []
    for i, item in enumerate(several("measurements", measurements, "write bench.save(path, [measurement])")):
        if not isinstance(item, Timed):
            raise ValueError(
                f"Item {i} is {type(item).__name__} {item!r}, but must be a Measurement; "
                "pass a list, such as bench.save(path, [measurement])."
            )
        row = {"kind": item.kind, **_rows.to_object(item)}
        rows.append(json.dumps(row, allow_nan=False, ensure_ascii=False))
    body = ",\n".join(rows)
    return f'{{"form": "{FORM}", "measurements": [\n{body}{chr(10) if rows else ""}]}}\n'


def recordings() -> tuple[str, ...]:
    """Return the names of the recorded runs that ship with the package.

    Returns
    -------
    tuple of str
        One for each machine that was really measured; there is none for a chip that was not.

    Examples
    --------
    >>> all(name.startswith("cpu_") for name in recordings())
    True
    """
    files = importlib.resources.files("pulsewarp.bench").joinpath("recorded").iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


@overload
def recorded(name: str | None = None) -> tuple[Measurement, ...]: ...


@overload
def recorded(name: str | None = None, *, only: type[T]) -> tuple[T, ...]: ...


@names_keywords
def recorded(name: str | None = None, *, only: type[Timed] = Measurement) -> tuple[Timed, ...]:
    """Return shipped measurements of machines that are not here, each labelled as recorded.

    Only machines that were really measured are shipped. So far these are CPUs: no accelerator
    could be measured yet, and none is made up.

    Parameters
    ----------
    name : str, optional
        One of `recordings`; all of them when left out.
    only : type
        The class of measurements to return; matrix products when left out, `Timed` for all.

    Returns
    -------
    tuple of Measurement

    Raises
    ------
    ValueError
        When there is no recording of that name.

    Examples
    --------
    >>> {measurement.origin for measurement in recorded()}
    {'recorded'}
    """
    names = recordings() if name is None else (choice("recording", name, recordings()),)
    folder = importlib.resources.files("pulsewarp.bench").joinpath("recorded")
    found: list[Timed] = []
    for each in names:
        with importlib.resources.as_file(folder.joinpath(f"{each}.json")) as path:
            found += load(path, only)
    return tuple(found)


def _from_row(row: Any, where: str) -> Timed:
    kinds = sorted({*_KINDS, *_HOMES})
    if not isinstance(row, dict) or "kind" not in row:
        found = "has no field 'kind'" if isinstance(row, dict) else f"is {type(row).__name__}"
        raise ValueError(f"{where} {found}, but must be an object with a 'kind' of {', '.join(kinds)}.")
    try:
        kind = choice("kind", row["kind"], kinds)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if kind not in _KINDS:
        importlib.import_module(_HOMES[kind])
    others = {name: value for name, value in row.items() if name != "kind"}
    found = _rows.from_object(_KINDS[kind], others, where)
    assert isinstance(found, Timed)
    return found


_MATMUL_FIELDS = tuple(f.name for f in dataclasses.fields(Matmul))
_SINCE_FORM_2 = {"stored": "", "batch": 1, "transposed": "", "error_bound": None}


def _from_earlier_row(row: Any, where: str) -> Timed:
    fields = (f.name for f in dataclasses.fields(Measurement) if f.name not in ("matmul", *_SINCE_FORM_2))
    _rows.has_fields(row, (*_MATMUL_FIELDS, *fields), where)
    others = {name: value for name, value in row.items() if name not in _MATMUL_FIELDS}
    matmul = {name: row[name] for name in _MATMUL_FIELDS}
    return _from_row({"kind": Measurement.kind, "matmul": matmul, **others, **_SINCE_FORM_2}, where)


def _text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {value!r}, but must be a text that is not empty.")


def _moment(value: str) -> None:
    try:
        known_offset = datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        known_offset = False
    if not known_offset:
        raise ValueError(
            f"when is {value!r}, but must be a date and time with offset, "
            "such as '2026-11-30T12:00:00+00:00'."
        )
