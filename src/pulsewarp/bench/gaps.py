"""Model against metal: where the time of a measured product went, part by part.

The parts are added one after the other, each with what it adds to those before it, so a cost that hides
behind an earlier one counts nothing, and its sentence says so:

ideal
    the operations at the peak of the fastest arithmetic that this device has for the type;
memory
    what the least traffic takes longer than that: together they are the roofline bound;
precision
    what the arithmetic that the program asked for takes longer: further passes, or a slower unit;
padding
    what a TPU's array loses on tiles that do not fill it, on loading, filling and draining, and a GPU on
    tiles that reach over the edge and on its last wave;
launch
    what the call clock shows above the device clock, where both were measured;
unexplained
    the rest of the measured time. It is negative where the run beats the model.

What is not known (no published peak, no rule for this device, one clock only) stays unknown, with the reason,
and is part of what is unexplained. No rule is stated here: bounds, waves and padding come from
`pulsewarp.roofline`, an array's cycles from `pulsewarp.systolic`, passes from `pulsewarp.numerics` and peaks
from the catalogue.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from pulsewarp import chips, numerics, roofline
from pulsewarp._checks import choice, instance, names_keywords, several
from pulsewarp._text import counted
from pulsewarp.bench.measured_ceilings import MEASURED_HERE, Ceilings
from pulsewarp.bench.measurement import MeasuredDevice, Measurement, with_prefix
from pulsewarp.bench.rounding import rounded_like
from pulsewarp.chips import Chip
from pulsewarp.systolic import matrix_units

PARTS = ("ideal", "memory", "precision", "padding", "launch", "unexplained")
"""Names of the parts, in the order in which they are added."""

TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
"""Result tiles that cuBLAS usually has, the most efficient first.

NVIDIA, "Matrix Multiplication Background User's Guide", DU-09799-001 (2023), section 2.3; the list as public
notes on that guide quote it, read 2026-11-30.
"""

_ROOFLINE = "Williams, Waterman and Patterson 2009, doi 10.1145/1498765.1498785"
_PRECISION = (
    "documentation of jax.lax.Precision (JAX 0.12.0.1); the error as pulsewarp.bench.rounding reads it"
)
_WAVES = "NVIDIA, DU-09799-001 (2023), sections 2.3, 3.1 and 3.2, by pulsewarp.roofline"
_ARRAY = "pulsewarp.systolic, whose closed form counts what its simulator steps through"
_PADDING = "Austin et al. 2025, tpus.md, by pulsewarp.roofline"
_CLOCKS = "call clock less device clock, medians"

_REMEDY = "pass what bench.time_matmul, bench.sweep or bench.recorded returned"
_SHARED = (
    "matmul", "stored", "batch", "transposed", "device", "precision", "precision_in_program", "origin",
)  # fmt: skip
_NOUNS = {
    "memory": "traffic to memory",
    "precision": "the precision asked for",
    "padding": "padding",
    "launch": "the launch",
    "unexplained": "unexplained",
}


@dataclass(frozen=True)
class GapPart:
    """One part of a measured time.

    Parameters
    ----------
    name : str
        One of `PARTS`.
    seconds : float or None
        What it adds to the parts before it; None where it is not known. Only "unexplained" may be negative.
    reason : str
        One sentence: why so much, or why it is not known.
    source : str
        Where formula and figures come from; empty for what is unexplained or unknown.
    """

    name: str
    seconds: float | None
    reason: str
    source: str = ""


@dataclass(frozen=True, repr=False)
class Gap:
    """A measured product beside its model: parts that add up to the measured time.

    Parameters
    ----------
    run : Measurement
        The product.
    call_run : Measurement or None
        The same product by the call clock; its time is then the one that is split.
    parts : tuple of GapPart
        In the order of `PARTS`.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> gap = explain(bench.recorded()[0])
    >>> gap.ideal is None, gap.unexplained == gap.measured  # no published ceiling of this CPU is known
    (True, True)
    """

    run: Measurement
    call_run: Measurement | None
    parts: tuple[GapPart, ...]

    @property
    def measured(self) -> float:
        """The median that is split, in seconds: of the call clock where both clocks are there."""
        return (self.call_run or self.run).median

    @property
    def clock(self) -> str:
        """By which clock `measured` is."""
        return (self.call_run or self.run).clock

    @property
    def bound(self) -> float | None:
        """The roofline bound in seconds, "ideal" and "memory" together; None where it is not known."""
        return None if self.ideal is None else math.fsum((self.ideal, self.memory or 0.0))

    @property
    def predicted(self) -> float | None:
        """What is modelled of the product itself, launch apart, in seconds; None where nothing is."""
        if self.ideal is None:
            return None
        return math.fsum((self.ideal, self.memory or 0.0, self.precision or 0.0, self.padding or 0.0))

    @property
    def ideal(self) -> float | None:
        """Seconds of the operations at the peak."""
        return self.part("ideal").seconds

    @property
    def memory(self) -> float | None:
        """Seconds that the least traffic takes longer."""
        return self.part("memory").seconds

    @property
    def precision(self) -> float | None:
        """Seconds that the arithmetic asked for takes longer."""
        return self.part("precision").seconds

    @property
    def padding(self) -> float | None:
        """Seconds lost on tiles, filling and waves."""
        return self.part("padding").seconds

    @property
    def launch(self) -> float | None:
        """Seconds of the call beside the product."""
        return self.part("launch").seconds

    @property
    def unexplained(self) -> float:
        """Seconds that no part names; negative where the run beats the model."""
        return self.part("unexplained").seconds or 0.0

    def part(self, name: str) -> GapPart:
        """Return a part by its name.

        Parameters
        ----------
        name : str
            One of `PARTS`.

        Returns
        -------
        GapPart

        Raises
        ------
        ValueError
            For a name that is none.
        """
        return self.parts[PARTS.index(choice("part", name, PARTS))]

    @property
    def title(self) -> str:
        """The product and where it ran."""
        return f"{self.run.title} on {self.run.device.label}"

    @property
    def sentence(self) -> str:
        """What to take home, in a sentence."""
        first, *others = self.parts
        if first.seconds is None:
            return f"Nothing is modelled: {first.reason}"
        if self.unexplained < 0:
            return f"The run beats the model by {_percent(-self.unexplained, self.measured)} of its time."
        at_peak = f"{_percent(first.seconds, self.measured)} of the time is arithmetic at the peak"
        worst = max(others, key=lambda part: part.seconds or 0.0)
        if not worst.seconds:
            return f"{at_peak}, and nothing is left."
        share = _percent(worst.seconds, self.measured)
        return f"{at_peak}; of the rest most is {_NOUNS[worst.name]}, {share} of the time."

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks of the runs, each once: what may mislead in the measured times themselves."""
        return tuple(dict.fromkeys([*self.run.notes, *(self.call_run.notes if self.call_run else ())]))

    def shares(self) -> tuple[str, ...]:
        """Return each part's share of the measured time in words, "unknown" for one that is not known.

        Returns
        -------
        tuple of str
            In the order of `PARTS`.
        """
        return tuple(
            "unknown" if part.seconds is None else _percent(part.seconds, self.measured)
            for part in self.parts
        )

    def __repr__(self) -> str:
        lines = [f"Gap({self._caption()}"]
        for part, share in zip(self.parts, self.shares(), strict=True):
            time = "" if part.seconds is None else with_prefix(part.seconds, "s")
            lines.append(f"  {part.name:<12}{time:>9}{share:>9}  {part.reason}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), f"  {self.sentence})"])

    def _repr_html_(self) -> str:
        rows = [
            (
                part.name,
                "" if part.seconds is None else with_prefix(part.seconds, "s"),
                share,
                part.reason,
                part.source,
            )
            for part, share in zip(self.parts, self.shares(), strict=True)
        ]
        heads = ("Part", "Time", "Share", "Why", "Formula and figures")
        return _table(" ".join([f"{self._caption()}.", self.sentence, *self.notes]), heads, rows)

    def _caption(self) -> str:
        return f"{self.title}: {with_prefix(self.measured, 's')} by the {self.clock} clock, {self.run.origin}"


@dataclass(frozen=True, repr=False)
class Gaps(Sequence[Gap]):
    """Several measured products beside their models: a sequence of `Gap`, shown as one table.

    Parameters
    ----------
    gaps : tuple of Gap
        In the order in which the products were measured.
    """

    gaps: tuple[Gap, ...]

    @overload
    def __getitem__(self, index: int) -> Gap: ...
    @overload
    def __getitem__(self, index: slice) -> Gaps: ...
    def __getitem__(self, index: int | slice) -> Gap | Gaps:
        return Gaps(self.gaps[index]) if isinstance(index, slice) else self.gaps[index]

    def __len__(self) -> int:
        return len(self.gaps)

    def __repr__(self) -> str:
        width = max([7, *(len(gap.title) for gap in self.gaps)])
        lines = [f"{'product':<{width}}  clock   measured" + "".join(f"{name:>13}" for name in PARTS)]
        for gap in self.gaps:
            shares = "".join(f"{share:>13}" for share in gap.shares())
            lines.append(f"{gap.title:<{width}}  {gap.clock:<6}{with_prefix(gap.measured, 's'):>10}{shares}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                gap.title,
                gap.clock,
                with_prefix(gap.measured, "s"),
                *gap.shares(),
                " ".join([gap.sentence, *gap.notes]),
            )
            for gap in self.gaps
        ]
        heads = ("Product", "Clock", "Measured", *(name.capitalize() for name in PARTS), "In words")
        return _table("Where the time went, in shares of the measured time", heads, rows)


@names_keywords
def explain(
    run: Measurement,
    chip: str | Chip | None = None,
    call_run: Measurement | None = None,
    *,
    ceilings: Ceilings | None = None,
    tile: tuple[int, int] | None = None,
) -> Gap:
    """Split a measured time into what a model of the device names, and what is left.

    Parameters
    ----------
    run : Measurement
        One product, by either clock.
    chip : str or Chip, optional
        Whose ceilings to use. Left out, those of the chip the run names, and of a chip whose cores are
        separate devices the share of one device.
    call_run : Measurement, optional
        The same product on the same device by the call clock, where `run` is by the device clock. Then the
        time of the call is split, and what it takes longer is the launch.
    ceilings : Ceilings, optional
        What `bench.ceilings` found on this very device, to be used instead of published figures: all that
        there is for a CPU.
    tile : (int, int), optional
        Rows and columns of the result that one block of a GPU makes. Left out, of an NVIDIA GPU the one of
        `TILES` that loses least, so that no more is named than any of them would lose.

    Returns
    -------
    Gap
        Its parts add up to the measured time.

    Raises
    ------
    ValueError
        An unknown chip, one of another family than the run's device, ceilings of another device, or a
        `call_run` of something else.
    TypeError
        `run` or `call_run` is no product that was measured, or `ceilings` are none.

    Notes
    -----
    With i, t, p, w the times of ideal arithmetic, of traffic, of the arithmetic asked for, and of the same on
    padded tiles and whole waves: ideal = i, memory = max(i, t) - i, precision = max(i, t, p) - max(i, t),
    padding = max(i, t, p, w) - max(i, t, p). Each part names its own source.

    Not modelled: caches that keep factors from one repeat to the next, clocks below the peak's, and how far a
    kernel stays below its unit's peak for other reasons. They are part of what is unexplained.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> run = bench.recorded()[-1]
    >>> explain(run).launch is None  # one clock only
    True
    """
    instance("run", run, Measurement, _REMEDY)
    if call_run is not None:
        _refuse_another(run, instance("call_run", call_run, Measurement, _REMEDY))
    known = _roof(run.device, chip, ceilings)
    modelled = (
        _unknown(f"No published ceiling of {run.device.label} is known; bench.ceilings() measures its own.")
        if known is None
        else _model(run, known, tile)
    )
    parts = [*modelled, _launch(run, call_run)]
    measured = (call_run or run).median
    rest = math.fsum([measured, *(-(part.seconds or 0.0) for part in parts)])
    parts.append(GapPart("unexplained", rest, _unexplained(run, call_run, known, parts, rest)))
    return Gap(run, call_run, tuple(parts))


@names_keywords
def explain_all(
    runs: Iterable[Measurement],
    chip: str | Chip | None = None,
    *,
    ceilings: Ceilings | None = None,
    tile: tuple[int, int] | None = None,
) -> Gaps:
    """Explain many runs; where one product was measured by both clocks, its two runs become one `Gap`.

    Parameters
    ----------
    runs : iterable of Measurement
        By either clock, in any order.
    chip, ceilings, tile
        As for `explain`.

    Returns
    -------
    Gaps
        One for each run by the device clock, and one for each by the call clock that has no such partner.

    Raises
    ------
    ValueError, TypeError
        As for `explain`.

    Examples
    --------
    >>> from pulsewarp import bench
    >>> runs = bench.recorded()
    >>> len(explain_all(runs)) <= len(runs)
    True
    """
    listed = [instance("A run", run, Measurement, _REMEDY) for run in several("runs", runs, _REMEDY)]
    calls = {_identity(run): run for run in listed if run.clock == "call"}
    on_device = {_identity(run) for run in listed if run.clock == "device"}
    return Gaps(
        tuple(
            explain(
                run,
                chip,
                calls.get(_identity(run)) if run.clock == "device" else None,
                ceilings=ceilings,
                tile=tile,
            )
            for run in listed
            if run.clock == "device" or _identity(run) not in on_device
        )
    )


def own_chip(device: MeasuredDevice) -> Chip | None:
    """Return the catalogue's chip that a device is, or its share of it; None where it knows none.

    Parameters
    ----------
    device : MeasuredDevice
        As a measurement names it.

    Returns
    -------
    Chip or None

    Raises
    ------
    ValueError
        For an id that the catalogue does not have.

    Examples
    --------
    >>> own_chip(MeasuredDevice("tpu", "TPU v5 lite", "tpu_v5e", 1, "Example CPU", 8)).peak("bf16")
    197000000000000.0
    """
    if device.chip is None:
        return None
    own = chips.get(device.chip)
    return own.per_jax_device() if device.devices_per_chip > 1 else own


# ------------------------------------------------------------------------------------------------ the parts


def _roof(device: MeasuredDevice, chip: str | Chip | None, ceilings: Ceilings | None) -> Chip | None:
    """Return whose ceilings count: those named, those measured, or the catalogue's of the device itself."""
    if ceilings is not None:
        instance("ceilings", ceilings, Ceilings, "pass what bench.ceilings() returned")
        if chip is not None:
            raise ValueError("chip and ceilings are both given, but one roof counts; leave one of them out.")
        if ceilings.device != device:
            raise ValueError(
                f"ceilings were measured on {ceilings.device.label}, but the run is of {device.label}; "
                f"measure both on one device."
            )
        return ceilings.as_chip()
    if chip is None:
        return own_chip(device)
    named = chips.get(chip) if isinstance(chip, str) else instance("chip", chip, Chip, "give a catalogue id")
    if named.family != device.platform and named.status != MEASURED_HERE:
        raise ValueError(
            f"chip is {named.name}, but the run is of {device.label} ({device.platform}); leave chip out to "
            f"take the run's own."
        )
    return named


def _unknown(reason: str) -> list[GapPart]:
    return [
        GapPart("ideal", None, reason),
        *(GapPart(name, None, "Not known without ceilings.") for name in PARTS[1:4]),
    ]


def _model(run: Measurement, chip: Chip, tile: tuple[int, int] | None) -> list[GapPart]:
    """Return what is modelled of the product itself, each part on top of those before it."""
    how = _arithmetic(run, chip)
    try:
        fastest = roofline.bound(run.matmul, chip, how.fastest)
        asked = run.batch * how.passes * roofline.bound(run.matmul, chip, how.used).compute_seconds
    except ValueError as error:  # no such peak, no bandwidth, a projection: its sentence says which
        return _unknown(str(error))
    ideal, traffic = run.batch * fastest.compute_seconds, run.batch * fastest.memory_seconds
    bound = run.batch * fastest.seconds
    with_precision = max(bound, asked)
    precision = with_precision - bound
    silicon = own_chip(run.device) if chip.status == MEASURED_HERE else chip
    tiles = _tiles(run, silicon, how.used, tile)
    parts = [
        GapPart("ideal", ideal, *_ideal_words(run, fastest)),
        GapPart("memory", bound - ideal, *_memory_words(run, fastest, ideal, traffic)),
        GapPart("precision", precision, how.reason + _hidden(asked - ideal, precision), _PRECISION)
        if how.known
        else GapPart("precision", None, how.reason),
    ]
    if tiles.useful is None:
        return [*parts, GapPart("padding", None, tiles.reason)]
    padding = max(with_precision, asked / tiles.useful) - with_precision
    reason = tiles.reason + _hidden(asked / tiles.useful - asked, padding)
    return [*parts, GapPart("padding", padding, reason, tiles.source)]


class _Arithmetic(NamedTuple):
    """What multiplies: the fastest that the device has for the stored type, and what the program took."""

    fastest: str
    used: str
    passes: int
    reason: str
    known: bool = True


def _arithmetic(run: Measurement, chip: Chip) -> _Arithmetic:
    dtype, platform = run.matmul.dtype, run.device.platform
    if dtype != "fp32":
        return _Arithmetic(dtype, dtype, 1, f"A precision is for float32; {dtype} is multiplied as it is.")
    if platform == "cpu":
        return _Arithmetic(dtype, dtype, 1, "On a CPU a precision changes nothing.")
    if platform == "gpu" and chip.status != MEASURED_HERE:
        return _float32_on_gpu(run, chip)
    if platform == "tpu" and chip.status != MEASURED_HERE:
        return _float32_on_tpu(run)
    reason = f"What a precision changes at the ceilings of {chip.name} is not known."
    return _Arithmetic(dtype, dtype, 1, reason, known=False)


def _float32_on_gpu(run: Measurement, chip: Chip) -> _Arithmetic:
    """Take TF32 for the fastest where it is published, and for used what the error shows."""
    fastest = "tf32" if "tf32" in chip.peak_flops_per_second else "fp32"
    used = rounded_like(run.relative_error)
    shown = f"an error of {run.relative_error:.1e} shows that it was multiplied in {used}"
    return _Arithmetic(fastest, used, 1, f"Of float32 at {run.precision_in_program}, {shown}.")


def _float32_on_tpu(run: Measurement) -> _Arithmetic:
    """Take the documented passes, unless the error shows other ones."""
    word, shown = run.precision_in_program, rounded_like(run.relative_error)
    if word not in numerics.JAX_PRECISIONS:
        words = ", ".join(numerics.JAX_PRECISIONS)
        reason = f"The program's precision {word!r} is none of {words}, so its cost is not known."
        return _Arithmetic("bf16", "bf16", 1, reason, known=False)
    passes = len(numerics.PRECISIONS[word].passes)
    documented = f"float32 at {word} is documented to take {counted(passes, 'bf16 pass', 'es')}"
    if (passes == 1) != (shown == "bf16"):
        reason = f"{documented}, but an error of {run.relative_error:.1e} is like that of {shown}: not known."
        return _Arithmetic("bf16", "bf16", 1, reason, known=False)
    return _Arithmetic("bf16", "bf16", passes, f"{documented}.")


def _hidden(cost: float, added: float) -> str:
    """Say how much of a cost hides behind the traffic, where more than rounding does."""
    hidden = cost - added
    return f" {with_prefix(hidden, 's')} of that hide behind the traffic." if hidden > 1e-9 * cost else ""


def _ideal_words(run: Measurement, bound: roofline.Bound) -> tuple[str, str]:
    unit = "OP" if run.matmul.dtype.startswith("int") else "FLOP"
    operations = with_prefix(float(run.flops), unit)
    peak = with_prefix(bound.peak_flops_per_second, f"{unit}/s")
    source = bound.chip.source(f"peak_flops_per_second.{bound.dtype}")
    return (
        f"{operations} at the {bound.dtype} peak of {bound.chip.name}, {peak}.",
        f"{_ROOFLINE}; peak: {source.title}, {source.date}",
    )


def _memory_words(run: Measurement, bound: roofline.Bound, ideal: float, traffic: float) -> tuple[str, str]:
    moved = with_prefix(float(run.bytes_moved), "B")
    bandwidth = with_prefix(bound.bandwidth_bytes_per_second, "B/s")
    source = bound.chip.source("bandwidth_bytes_per_second")
    how = "longer than the arithmetic" if traffic > ideal else "hidden behind the arithmetic"
    return (
        f"{moved} at {bandwidth} take {with_prefix(traffic, 's')}, {how}.",
        f"{_ROOFLINE}; bandwidth: {source.title}, {source.date}",
    )


class _Tiles(NamedTuple):
    """Which share of the units' time on padded tiles is needed, in (0, 1]; None where no rule is known."""

    useful: float | None
    reason: str
    source: str = ""


def _tiles(run: Measurement, chip: Chip | None, arithmetic: str, tile: tuple[int, int] | None) -> _Tiles:
    if chip is not None and chip.family == "tpu" and chip.matrix_unit_shape is not None:
        return _on_array(run, chip, arithmetic)
    if chip is not None and chip.family == "gpu" and chip.cores is not None:
        return _in_waves(run, chip, tile)
    return _Tiles(None, f"No rule for tiles on {run.device.label} is known.")


def _on_array(run: Measurement, chip: Chip, arithmetic: str) -> _Tiles:
    units = matrix_units(chip)
    if chip.peak(arithmetic) != chip.peak(units.dtype):
        return _Tiles(None, f"How the matrix units of {chip.name} take {arithmetic} is not documented.")
    shape = f"{units.rows} x {units.cols}"
    if run.batch > 1:
        useful = roofline.tile_padding(run.matmul, chip).efficiency
        reason = (
            f"Tiles of {shape} are {_nearly(useful)} full; filling and draining for a batch are not counted."
        )
        return _Tiles(useful, reason, _PADDING)
    shared = 1 if units.units is None else units.units
    # Which operand stays in the array is the compiler's choice and not documented: the one that loses less.
    useful = max(
        units.gemm(m=run.matmul.m, k=run.matmul.k, n=run.matmul.n, dataflow=flow, units=shared).utilization
        for flow in ("ws", "is")
    )
    reason = (
        f"Of what {counted(shared, 'matrix unit')} of {shape} could do, {_nearly(useful)} is needed; the "
        f"rest goes to tiles that do not fill them, loading, filling and draining."
    )
    if units.units is None:
        reason += " How many units there are is not settled: more would lose more."
    return _Tiles(useful, reason, _ARRAY)


def _in_waves(run: Measurement, chip: Chip, tile: tuple[int, int] | None) -> _Tiles:
    if tile is None and chip.vendor != "NVIDIA":
        reason = f"Which tiles {chip.name} is given is not known here; say it by tile=(rows, columns)."
        return _Tiles(None, reason)
    cut = [roofline.wave_quantisation(run.matmul, chip, each) for each in ((tile,) if tile else TILES)]
    best = max(cut, key=lambda each: _useful_in_waves(each, run.batch))
    launch = roofline.waves(run.batch * best.tiles, best.launch.sms)
    useful = _useful_in_waves(best, run.batch)
    chosen = "" if tile else ", which of cuBLAS's usual tiles lose least"
    reason = (
        f"{counted(launch.blocks, 'tile')} of {best.tile[0]} x {best.tile[1]}{chosen}, take "
        f"{counted(launch.waves, 'wave')} of {launch.slots}, {_nearly(useful)} of them needed."
    )
    return _Tiles(useful, reason, _WAVES)


def _useful_in_waves(cut: roofline.WaveQuantisation, batch: int) -> float:
    return cut.tile_efficiency * roofline.waves(batch * cut.tiles, cut.launch.sms).efficiency


def _launch(run: Measurement, call_run: Measurement | None) -> GapPart:
    if call_run is None and run.clock == "call":
        return GapPart(
            "launch", None, "Only the call clock was read, which cannot tell the launch from the product."
        )
    if call_run is None:
        over = counted(run.products_per_repeat, "product")
        reason = f"Only the device clock was read, which spreads one dispatch over {over}."
        return GapPart("launch", None, reason)
    longer = call_run.median - run.median
    call, device = with_prefix(call_run.median, "s"), with_prefix(run.median, "s")
    if longer <= 0:
        reason = f"A call, {call}, took no longer than the product on the device, {device}: below the noise."
    else:
        reason = f"A call takes {call} by the call clock, the product {device} by the device clock."
        if call_run.quartiles[0] < run.quartiles[1]:
            reason += " Both scatter so much that their quartiles overlap, so this may be noise."
    return GapPart("launch", max(0.0, longer), reason, _CLOCKS)


def _unexplained(
    run: Measurement,
    call_run: Measurement | None,
    chip: Chip | None,
    parts: Sequence[GapPart],
    rest: float,
) -> str:
    if chip is None or parts[0].seconds is None:
        return "Nothing of the product is modelled, so all of it is here."
    if run.median < parts[0].seconds:
        return (
            "The run is faster than the peak allows: the device, its peak or the clock is not what was "
            "assumed, so trust none of the parts."
        )
    if rest < 0:
        return _beaten(run, chip, parts)
    also = ["clocks below the peak's", "kernels short of their unit's peak", "traffic beyond the least"]
    if call_run is None and run.clock == "call":
        also.append("the launch")
    elif run.device.platform == "gpu":
        also.append("launches inside the chain")
    also += [f"{part.name}, which is not known" for part in parts[:4] if part.seconds is None]
    return f"What no part names: {', '.join(also[:-1])} and {also[-1]}."


def _beaten(run: Measurement, chip: Chip, parts: Sequence[GapPart]) -> str:
    """Say what the model assumes that this run need not have obeyed."""
    reasons = []
    moved = run.bytes_moved
    caches = (chip.l2_cache_bytes, chip.last_level_cache_bytes, chip.vmem_bytes, chip.cmem_bytes)
    on_chip = max((size for size in caches if size is not None), default=0)
    by_name = {part.name: part.seconds for part in parts}
    if by_name["memory"] and moved <= on_chip:
        sizes = with_prefix(float(moved), "B"), with_prefix(float(on_chip), "B")
        reasons.append(f"its {sizes[0]} fit into {sizes[1]} on the chip and may have stayed there")
    if by_name["padding"]:
        reasons.append("its tiles may be cut or spread otherwise than assumed")
    if by_name["precision"]:
        reasons.append("it may have taken fewer or cheaper passes than documented")
    return f"The run beats the model: {', and '.join(reasons) or 'its ceilings are higher than assumed'}."


def _identity(run: Measurement) -> tuple[object, ...]:
    """Return what two runs share that differ by their clock alone."""
    return tuple(getattr(run, name) for name in _SHARED)


def _refuse_another(run: Measurement, call_run: Measurement) -> None:
    if (run.clock, call_run.clock) != ("device", "call"):
        raise ValueError(
            f"run is by the {run.clock} clock and call_run by the {call_run.clock} clock, but must be by the "
            f"device clock and by the call clock."
        )
    for name in _SHARED:
        of_run, of_call = getattr(run, name), getattr(call_run, name)
        if of_run != of_call:
            raise ValueError(
                f"run and call_run differ in {name}: {of_run!r} and {of_call!r}, but must be one product on "
                f"one device; pass the two runs of it."
            )


def _percent(seconds: float, whole: float) -> str:
    """Return a share of the whole as a percentage that does not call anything nothing."""
    share = seconds / whole
    if 0 < abs(share) < 5e-4:
        return "<0.1%" if share > 0 else ">-0.1%"
    return f"{share:.1%}" if 0 < abs(share) < 0.0995 else f"{share:.0%}"


def _nearly(useful: float) -> str:
    """Return a useful share as a percentage that does not call anything all."""
    return "over 99.9%" if 0.9995 <= useful < 1 else f"{useful:.1%}"


# Columns that may break their lines, and how narrow they get.
_SENTENCES = {"Product": "11em", "Why": "18em", "Formula and figures": "18em", "In words": "20em"}


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls sideways where it is wider than its page."""
    styles = [
        "text-align:left;vertical-align:top;padding:.15em .9em .15em 0;"
        + (f"min-width:{_SENTENCES[head]}" if head in _SENTENCES else "white-space:nowrap")
        for head in heads
    ]
    head = "".join(
        f'<th scope="col" style="{style}">{html.escape(name)}</th>'
        for name, style in zip(heads, styles, strict=True)
    )
    body = ""
    for first, *others in rows:
        cells = zip(others, styles[1:], strict=True)
        body += f'<tr><th scope="row" style="{styles[0]}">{html.escape(first)}</th>'
        body += "".join(f'<td style="{style}">{html.escape(cell)}</td>' for cell, style in cells) + "</tr>"
    return (
        '<div style="overflow-x:auto"><table>'
        f'<caption style="text-align:left">{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
