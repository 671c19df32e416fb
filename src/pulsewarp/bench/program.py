"""A compiled program beside the product it was made for: XLA's count of work, ours, and why they differ.

How XLA counts is read from its `HloCostAnalysis` (openxla/xla, xla/service/hlo_cost_analysis.cc, read
2026-12-01): a loop's body is counted once; every call into a library that it does not know adds -1; and
"bytes accessed" sums what each operation reads and writes. Programs compiled with JAX 0.4.30, 0.7.2 and
0.12.0 on a CPU showed all three on the same day.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pulsewarp._text import counted
from pulsewarp.bench.hlo import ELEMENTWISE, Operation, Program
from pulsewarp.matmul import Matmul

_COLUMNS = ("XLA", "ours", "XLA / ours")
_MOST_ROWS = 60  # of the list of steps; the whole text stays in program.text
_MOST_TEXT = 20_000  # characters of it shown in a notebook


@dataclass(frozen=True, repr=False)
class CompiledProgram:
    """What the compiler made of a function, with its cost by XLA's own analysis.

    Parameters
    ----------
    program : Program
        The optimised program, read from its text; `program.text` is the whole of it.
    platform : str
        What it was compiled for: ``"cpu"``, ``"gpu"`` or ``"tpu"``.
    flops : float or None
        By XLA's cost analysis; None where it gives none.
    bytes_accessed : float or None
        By XLA's cost analysis, bytes; None where it gives none.
    matmul : Matmul or None
        The product that the function computes, to compare with.
    memory_bytes : mapping of str to int
        What the program needs: ``"arguments"``, ``"results"``, ``"temporaries"``, where JAX says so.
    versions : mapping of str to str
        Of what compiled it.
    why_unknown : str or None
        When the analysis failed, its reason.
    """

    program: Program
    platform: str
    flops: float | None
    bytes_accessed: float | None
    matmul: Matmul | None = None
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    why_unknown: str | None = None

    @property
    def partial(self) -> bool:
        """Whether XLA's sums lack the product: it is a call into a library, which counts as -1."""
        called = any(each.operation.opcode == "custom-call" for each in self.program.products)
        fewer = self.matmul is not None and self.flops is not None and self.flops < self.matmul.flops
        return called and fewer

    @property
    def flops_ratio(self) -> float | None:
        """XLA's FLOPs over ours; None where one of them is unknown or XLA's lack the product."""
        return None if self.partial else _ratio(self.flops, self._ours[0])

    @property
    def bytes_ratio(self) -> float | None:
        """XLA's bytes over ours; None where one of them is unknown or XLA's lack the product."""
        return None if self.partial else _ratio(self.bytes_accessed, self._ours[1])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why the counts differ, and what they leave out, in sentences."""
        return (*self._flops_remarks(), *self._bytes_remarks(), *self._reading_remarks())

    def rows(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return the counts as (what, XLA's, ours, XLA's over ours), ready to print.

        Returns
        -------
        tuple of (str, str, str, str)
        """
        flops, moved = self._ours
        return (
            ("FLOPs", *_row(self.flops, flops, self.flops_ratio)),
            ("bytes", *_row(self.bytes_accessed, moved, self.bytes_ratio)),
        )

    @property
    def _ours(self) -> tuple[int | None, int | None]:
        return (None, None) if self.matmul is None else (self.matmul.flops, self.matmul.bytes_moved)

    def __repr__(self) -> str:
        lines = [self._title(), f"{'':<8}{'XLA':>20}{'ours':>20}{'XLA / ours':>12}"]
        lines += [f"{what:<8}{xla:>20}{ours:>20}{ratio:>12}" for what, xla, ours, ratio in self.rows()]
        lines += [*self.remarks, "Steps, in order; what is fused or looped stands below:"]
        lines += [f"{'  ' * depth}- {sentence}" for depth, sentence in self._listed()]
        lines.append(f"The whole text: .program.text, {counted(self.program.text.count(chr(10)), 'line')}.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cell = '<td style="text-align:right">'
        head = "".join(f'<th scope="col" style="text-align:right">{name}</th>' for name in _COLUMNS)
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{what}</th>'
            + "".join(f"{cell}{html.escape(text)}</td>" for text in texts)
            + "</tr>"
            for what, *texts in self.rows()
        )
        remarks = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.remarks)
        text, cut = self.program.text[:_MOST_TEXT], len(self.program.text) > _MOST_TEXT
        more = "<p>Cut here; the whole text is in .program.text.</p>" if cut else ""
        return (
            f'<div style="overflow-x:auto"><table><caption>{html.escape(self._title())}</caption>'
            f"<tr><td></td>{head}</tr>{body}</table></div>{remarks}"
            f"<p>Steps, in order; what is fused or looped stands inside:</p>{_nested(list(self._listed()))}"
            f"<details><summary>The text that XLA printed</summary>"
            f'<pre style="overflow-x:auto">{html.escape(text)}</pre>{more}</details>'
        )

    def _title(self) -> str:
        made_by = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        steps = counted(len(self.program.steps), "step")
        return f"{self.program.name}, compiled for {self.platform}{made_by and f' by {made_by}'}: {steps}"

    def _listed(self) -> Iterator[tuple[int, str]]:
        walked = list(self.program.walk())
        for step, inside in walked[:_MOST_ROWS]:
            yield len(inside), _in_words(step, self.program)
        if len(walked) > _MOST_ROWS:
            yield 0, f"and {len(walked) - _MOST_ROWS} more"

    def _flops_remarks(self) -> Iterator[str]:
        if self.flops is None:
            yield self._unknown("FLOPs")
        loops = [each for each, _ in self.program.walk() if each.opcode == "while"]
        if loops:
            trips = [each.trips for each in loops if each.trips is not None]
            often = f" (here {' and '.join(map(str, trips))} times)" if trips else ""
            yield f"XLA counts a loop's body once, however often it runs{often}."
        if self.matmul is None and any(each.opcode == "custom-call" for each, _ in self.program.walk()):
            yield "The program calls a library: where XLA does not know the call, its sums lack it."
        if self.flops is None or self.matmul is None:
            return
        extra = self.flops - self.matmul.flops
        if extra == 0:
            yield f"The FLOPs agree: 2 x {self.matmul.m} x {self.matmul.k} x {self.matmul.n}."
        elif extra > 0:
            yield self._why_more(extra)
        else:
            yield self._why_less(-extra)

    def _why_more(self, extra: float) -> str:
        apart = self._counted_apart()
        named = ", ".join(
            f"{opcode}{f' x {n}' if n > 1 else ''}"
            for opcode, n in sorted(Counter(opcode for opcode, _ in apart).items())
        )
        if not named:
            return f"XLA counts {extra:,.0f} more; the program's text does not show why."
        if extra == sum(operations for _, operations in apart):
            reduced = ", or that a reduction takes beyond its results" if "reduce" in dict(apart) else ""
            return f"The {extra:,.0f} more are one for each value that these give{reduced}: {named}."
        return f"XLA counts {extra:,.0f} more: besides the product the program has {named}."

    def _counted_apart(self) -> list[tuple[str, int]]:
        """Return what XLA counts beside products, as (opcode, operations), by its plainest rule."""
        sizes = {op.name: op.elements or 0 for part in self.program.computations for op in part.operations}
        found = []
        for step, _ in self.program.walk():
            if step.opcode in ELEMENTWISE:
                found.append((step.opcode, step.elements or 0))
            elif step.opcode == "reduce" and step.operands:
                found.append((step.opcode, sizes.get(step.operands[0], 0) - (step.elements or 0)))
        return found

    def _why_less(self, missing: float) -> str:
        if self.partial:
            return "XLA counts neither the FLOPs nor the bytes of a library's call: each adds -1 to its sums."
        if self.matmul and not self.program.products and missing == self.matmul.m * self.matmul.n:
            return (
                "The product was rewritten as a multiplication and a sum: "
                "a sum of k terms takes k - 1 additions, where 2 m k n counts k."
            )
        return f"XLA counts {missing:,.0f} fewer; the program's text does not show why."

    def _bytes_remarks(self) -> Iterator[str]:
        if self.bytes_accessed is None:
            if self.flops is not None:
                yield self._unknown("bytes")
            return
        if self.matmul is None or self.partial:
            return
        if self.bytes_ratio == 1:
            yield "The bytes agree: each factor read once, the result written once."
        elif self.bytes_accessed > self.matmul.bytes_moved:
            steps = counted(len(self.program.steps), "step")
            yield (
                f"XLA adds up what each of the {steps} reads and writes, so a value between two of them "
                "counts twice or more; we count each factor and the result once. Neither knows a cache."
            )
        else:
            yield "XLA counts fewer bytes than the factors and the result have, so it leaves some out."

    def _unknown(self, what: str) -> str:
        calls = sorted({each.target or "" for each, _ in self.program.walk() if each.opcode == "custom-call"})
        if self.why_unknown:
            return f"XLA's cost analysis gives no {what} here: {self.why_unknown}"
        if calls:
            return (
                f"XLA's cost analysis gives no {what} here: it does not know what "
                f"{', '.join(calls[:3])} does, and counts such a call as -1."
            )
        return f"XLA's cost analysis gives no {what} for this backend."

    def _reading_remarks(self) -> Iterator[str]:
        if self.program.unread:
            yield f"{counted(self.program.unread, 'line')} could not be read; see .program.text."


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return None if theirs is None or not ours else theirs / ours


def _row(theirs: float | None, ours: float | None, ratio: float | None) -> tuple[str, str, str]:
    return (
        "unknown" if theirs is None else f"{theirs:,.0f}",
        "-" if ours is None else f"{ours:,.0f}",
        "-" if ratio is None else f"{ratio:.4g}",
    )


def _in_words(step: Operation, program: Program) -> str:
    """Say what a step is: its name, as a profile shows it too, what it does, and who runs it."""
    inner = program.inner(step)
    if step.opcode == "fusion":
        what = f"{step.kind or 'a'} fusion of {counted(len(inner), 'operation')}"
    elif step.opcode == "while":
        what = "loop" if step.trips is None else f"loop of {counted(step.trips, 'trip')}"
    elif step.opcode == "custom-call":
        what = f"call of {step.target}"
    else:
        what = step.opcode
    ran = f", run by {step.library}" if step.library and step.library != step.target else ""
    if step.is_product:
        ran += f", precision {step.precision}" if step.precision else ", precision not named"
    return f"{step.name}: {what} -> {step.shape}{ran}"


def _nested(listed: list[tuple[int, str]]) -> str:
    """Return (depth, sentence) pairs as nested lists."""
    parts, depth = [], -1
    for level, sentence in listed:
        parts.append("<ul>" if level > depth else "</li>" + "</ul></li>" * (depth - level))
        parts.append(f"<li><code>{html.escape(sentence)}</code>")
        depth = level
    return "".join([*parts, "</li></ul>" * (depth + 1)])
