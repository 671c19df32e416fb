"""A timed matrix product as a value, and its form on disk.

A file of the form ``pulsewarp-measurements/1`` is one JSON object::

    {"form": "pulsewarp-measurements/1", "measurements": [ ... ]}

Each measurement is an object with exactly these fields, times in seconds:

====================== ==========================================================================
``m``, ``k``, ``n``     sizes of the product A (m x k) times B (k x n)
``dtype``               catalogue name of the factors' type, such as ``"fp32"``
``device``              object: ``platform``, ``kind`` (JAX's names), ``chip`` (catalogue id or
                        null), ``devices_per_chip``, ``cpu_model`` and ``cores`` of the host
``clock``               ``"device"`` or ``"call"``, see `Measurement`
``precision``           what was asked for: ``"default"``, ``"high"`` or ``"highest"``
``precision_in_program`` what the compiled program carries
``seconds``             seconds per product, one number for each repeat, none left out
``products_per_repeat`` products chained in one repeat
``compile_seconds``     lowering and compiling the timed program, apart from ``seconds``
``warmup_calls``        calls made and thrown away before the first repeat
``relative_error``      against float64, Frobenius norm over the sampled rows
``error_rows``          rows sampled for it
``seed``                of the random factors
``versions``            object: package name to version
``when``                end of the measurement, ISO 8601 with its offset
``origin``              ``"live"`` or ``"recorded"``
``notes``               list of sentences that belong beside the number
====================== ==========================================================================

Nothing is derived on disk: medians, quartiles and rates are computed from ``seconds`` when read.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pulsewarp._checks import choice, names_keywords, positive_number, several, whole_number
from pulsewarp._files import read_json, write_text_atomically
from pulsewarp._text import counted
from pulsewarp.matmul import Matmul

FORM = "pulsewarp-measurements/1"
CLOCKS = ("device", "call")
PRECISIONS = ("default", "high", "highest")
ORIGINS = ("live", "recorded")

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


@dataclass(frozen=True)
class Measurement:
    """One matrix product, timed many times on one device.

    Two clocks, never mixed. ``"call"`` is what a Python loop sees: one call, waited for, dispatch
    included. ``"device"`` is a chain of products inside one compiled program, each needing the
    result of the one before it, divided by the number of products; the dispatch of the one call
    is spread over the chain.

    Parameters
    ----------
    matmul : Matmul
        The product.
    device : MeasuredDevice
        Where it ran.
    clock : {"device", "call"}
        Which of the two clocks.
    precision, precision_in_program : str
        Asked for, and found in the program that ran.
    seconds : tuple of float
        Seconds per product, one for each repeat, all kept.
    products_per_repeat : int
        Products in one repeat; 1 for the call clock.
    compile_seconds : float
        Lowering and compiling, in seconds; not part of `seconds`.
    warmup_calls : int
        Calls thrown away before the first repeat.
    relative_error : float
        ``norm(result - exact) / norm(exact)`` over the sampled rows, exact in float64.
    error_rows : int
        Rows sampled.
    seed : int
        Of the random factors.
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

    Examples
    --------
    >>> cpu = MeasuredDevice("cpu", "cpu", None, 1, "Example CPU", 2)
    >>> Measurement(Matmul(100, 100, 100, "fp32"), cpu, "device", "highest", "highest",
    ...             (2e-4, 1e-4, 4e-4), 50, 0.03, 3, 1e-7, 64, 0, {"jax": "0.7.2"},
    ...             "2026-11-30T12:00:00+00:00").flops_per_second
    10000000000.0
    """

    matmul: Matmul
    device: MeasuredDevice
    clock: str
    precision: str
    precision_in_program: str
    seconds: tuple[float, ...]
    products_per_repeat: int
    compile_seconds: float
    warmup_calls: int
    relative_error: float
    error_rows: int
    seed: int
    versions: Mapping[str, str] = field(hash=False)
    when: str
    origin: str = "live"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        choice("clock", self.clock, CLOCKS)
        choice("precision", self.precision, PRECISIONS)
        _text("precision_in_program", self.precision_in_program)
        choice("origin", self.origin, ORIGINS)
        if not self.seconds:
            raise ValueError("seconds is empty, but a measurement needs at least one repeat.")
        seconds = tuple(positive_number(f"seconds[{i}]", value) for i, value in enumerate(self.seconds))
        object.__setattr__(self, "seconds", seconds)
        whole_number("products_per_repeat", self.products_per_repeat)
        positive_number("compile_seconds", self.compile_seconds, zero=True)
        whole_number("warmup_calls", self.warmup_calls, least=0)
        positive_number("relative_error", self.relative_error, zero=True)
        whole_number("error_rows", self.error_rows)
        whole_number("seed", self.seed, least=0)
        for name, version in self.versions.items():
            _text(f"versions[{name!r}]", version)
        object.__setattr__(self, "versions", MappingProxyType(dict(sorted(self.versions.items()))))
        object.__setattr__(self, "notes", tuple(self.notes))
        for i, note in enumerate(self.notes):
            _text(f"notes[{i}]", note)
        _moment(self.when)

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

    @property
    def flops_per_second(self) -> float:
        """Operations of the product divided by the median time, in FLOP/s (OP/s for integers)."""
        return self.matmul.flops / self.median

    def __repr__(self) -> str:
        low, high = self.quartiles
        rate = "OP/s" if self.matmul.dtype.startswith("int") else "FLOP/s"
        shape = f"{self.matmul.m} x {self.matmul.k} x {self.matmul.n} {self.matmul.dtype}"
        median = with_prefix(self.median, "s")
        lines = (
            f"Measurement({shape} on {self.device.label}, {self.origin} {self.when}",
            f"  {self.clock} clock: median {median}, quartiles {with_prefix(low, 's')} to "
            f"{with_prefix(high, 's')}, {len(self.seconds)} repeats of {self.products_per_repeat}",
            f"  {with_prefix(self.flops_per_second, rate)}, precision {self.precision} "
            f"(program: {self.precision_in_program}), relative error {self.relative_error:.1e}",
            f"  compiled in {with_prefix(self.compile_seconds, 's')}, apart from the times above",
            *(f"  {note}" for note in self.notes),
        )
        return "\n".join(lines) + ")"


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
def save(path: str | os.PathLike[str], measurements: Iterable[Measurement]) -> Path:
    """Write measurements as one file of the form ``pulsewarp-measurements/1``.

    The file is written beside `path` and renamed over it, so an interrupt or a full disk leaves
    the earlier file whole.

    Parameters
    ----------
    path : path
        File to write; its folder must exist.
    measurements : iterable of Measurement
        In the order to keep.

    Returns
    -------
    Path
        The path written.

    Raises
    ------
    ValueError
        When an item is not a Measurement.
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


@names_keywords
def load(path: str | os.PathLike[str]) -> tuple[Measurement, ...]:
    """Read a file of the form ``pulsewarp-measurements/1``, checking every field.

    Parameters
    ----------
    path : path
        File to read.

    Returns
    -------
    tuple of Measurement
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
    try:
        document = read_json(path, FORM)
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
    return tuple(_from_row(row, f"{path}, measurement {i}") for i, row in enumerate(rows))


def dumps(measurements: Iterable[Measurement]) -> str:
    r"""Return the text that `save` writes.

    Parameters
    ----------
    measurements : iterable of Measurement
        In the order to keep.

    Returns
    -------
    str
        JSON, one measurement a line, so that a change to one shows as one line in a diff.

    Raises
    ------
    ValueError
        When an item is not a Measurement.

    Examples
    --------
    >>> dumps([])
    '{"form": "pulsewarp-measurements/1", "measurements": [\n]}\n'
    """
    rows = []
    for i, item in enumerate(several("measurements", measurements, "write bench.save(path, [measurement])")):
        if not isinstance(item, Measurement):
            raise ValueError(
                f"Item {i} is {type(item).__name__} {item!r}, but must be a Measurement; "
                "pass a list, such as bench.save(path, [measurement])."
            )
        rows.append(json.dumps(_to_row(item), allow_nan=False, ensure_ascii=False))
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


@names_keywords
def recorded(name: str | None = None) -> tuple[Measurement, ...]:
    """Return shipped measurements of machines that are not here, each labelled as recorded.

    Only machines that were really measured are shipped. So far these are CPUs: no accelerator
    could be measured yet, and none is made up.

    Parameters
    ----------
    name : str, optional
        One of `recordings`; all of them when left out.

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
    found: list[Measurement] = []
    for each in names:
        with importlib.resources.as_file(folder.joinpath(f"{each}.json")) as path:
            found += load(path)
    return tuple(found)


_DEVICE_FIELDS = tuple(f.name for f in dataclasses.fields(MeasuredDevice))
_MATMUL_FIELDS = ("m", "k", "n", "dtype")
_PLAIN_FIELDS = tuple(f.name for f in dataclasses.fields(Measurement) if f.name not in ("matmul", "device"))
_FIELDS = (*_MATMUL_FIELDS, "device", *_PLAIN_FIELDS)


def _to_row(item: Measurement) -> dict[str, Any]:
    values = {name: getattr(item.matmul, name) for name in _MATMUL_FIELDS}
    values["device"] = dataclasses.asdict(item.device)
    values |= {name: getattr(item, name) for name in _PLAIN_FIELDS}
    return values | {
        "seconds": list(item.seconds),
        "versions": dict(item.versions),
        "notes": list(item.notes),
    }


def _from_row(row: Any, where: str) -> Measurement:
    _has_fields(row, _FIELDS, where)
    _has_fields(row["device"], _DEVICE_FIELDS, f"{where}, device")
    for name, kind, words in (
        ("seconds", list, "a list"),
        ("notes", list, "a list"),
        ("versions", dict, "an object"),
    ):
        if not isinstance(row[name], kind):
            raise ValueError(f"{where}: {name} is {row[name]!r}, but must be {words}.")
    for name in ("compile_seconds", "relative_error"):
        _is_number(row[name], f"{where}: {name}")
    for i, value in enumerate(row["seconds"]):
        _is_number(value, f"{where}: seconds[{i}]")
    plain = {name: row[name] for name in _PLAIN_FIELDS}
    plain |= {"seconds": tuple(map(float, row["seconds"])), "notes": tuple(row["notes"])}
    plain |= {name: float(row[name]) for name in ("compile_seconds", "relative_error")}
    try:
        return Measurement(
            matmul=Matmul(*(row[name] for name in _MATMUL_FIELDS)),
            device=MeasuredDevice(**row["device"]),
            **plain,
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _has_fields(row: Any, fields: tuple[str, ...], where: str) -> None:
    if not isinstance(row, dict):
        raise ValueError(
            f"{where} is {type(row).__name__}, but must be an object with the fields of {FORM!r}."
        )
    for name in fields:
        if name not in row:
            raise ValueError(f"{where} has no field {name!r}; every field of {FORM!r} must be there.")
    for name in row:
        if name not in fields:
            raise ValueError(f"{where} has the unknown field {name!r}; {FORM!r} has no such field.")


def _is_number(value: object, where: str) -> None:
    # Text that looks like a number would pass float(); in a file it is a fault.
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        raise ValueError(f"{where} is {str(value)[:40]!r}, but must be a finite number.")


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
