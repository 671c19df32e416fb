"""How far off the guide's estimates are on published runs that it has not seen, miss by miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pulsewarp._checks import choice, names_keywords
from pulsewarp.guide import efficiency, serving
from pulsewarp.guide.band import short
from pulsewarp.guide.efficiency import Errors, LeftOut

WHAT = ("training", "serving")


@dataclass(frozen=True, repr=False)
class ErrorTable:
    """Every public case beside what the guide says of it without anything of the case's own source.

    Attributes
    ----------
    what : str
        "training" or "serving".
    unit : str
        Of the published and predicted numbers.
    rows : tuple of LeftOut
        One for each case, none left out.
    errors : Errors
        Their summary: typical factor, shares within 1.25 and 1.5, share inside the 80 % band.
    misses : mapping of str to str
        Cases outside their band, each with the reason where one is known, else by how much.
    """

    what: str
    unit: str
    rows: tuple[LeftOut, ...]
    errors: Errors
    misses: Mapping[str, str] = field(hash=False)

    def __repr__(self) -> str:
        return f"ErrorTable({self.what!r}, {self.errors!r}, misses={len(self.misses)})"

    def __str__(self) -> str:
        lines = [self._summary(), ""]
        head = ("Case", "Chip", "Model", "Published", "Predicted", "Ratio", "In the band")
        table = [head, *self._cells()]
        widths = [max(len(row[i]) for row in table) for i in range(len(head))]
        lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        head = ("Case", "Chip", "Model", "Published", "Predicted", "Ratio", "In the band")
        rows = [head, tuple("---" for _ in head), *self._cells()]
        return f"{self._summary()}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"

    def _summary(self) -> str:
        e = self.errors
        return (
            f"{e.cases} published {self.what} cases, each predicted without its own source ({self.unit}): "
            f"typical error a factor of {e.typical:.2f}, {e.within_1_25:.0%} within 1.25, "
            f"{e.within_1_5:.0%} within 1.5, {e.band_coverage:.0%} inside the 80 % band."
        )

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                row.id,
                row.chip,
                row.model,
                short(row.published),
                str(row.band),
                f"{row.ratio:.2f}",
                "yes" if row.inside else f"no: {self.misses[row.id]}",
            )
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, ready for JSON."""
        return {
            "what": self.what,
            "unit": self.unit,
            "typical": self.errors.typical,
            "within_1_25": self.errors.within_1_25,
            "within_1_5": self.errors.within_1_5,
            "band_coverage": self.errors.band_coverage,
            "rows": [
                {
                    "id": row.id,
                    "source": row.source,
                    "chip": row.chip,
                    "model": row.model,
                    "published": row.published,
                    "predicted": row.band.to_dict(),
                    "inside_band": row.inside,
                }
                for row in self.rows
            ],
            "misses": dict(self.misses),
        }


@names_keywords
def errors_table(what: str = "training") -> ErrorTable:
    """Return how far off the guide is on public cases of sources that it has not seen, misses included.

    Parameters
    ----------
    what : {"training", "serving"}
        Which estimates.

    Returns
    -------
    ErrorTable
        As recorded with the fit that ships; nothing is fitted anew.

    Raises
    ------
    ValueError
        For another word.

    Examples
    --------
    >>> table = errors_table("training")
    >>> len(table.rows), round(table.errors.typical, 2), len(table.misses)
    (54, 1.22, 9)
    """
    choice("what", what, WHAT)
    rows = efficiency.left_out_rows() if what == "training" else serving.left_out()
    reasons = _training_misses() if what == "training" else serving.missed()
    unit = "model FLOP/s a chip" if what == "training" else "tokens/s a chip"
    misses = {
        row.id: reasons.get(row.id, f"published is {row.ratio:.2f} times the prediction")
        for row in rows
        if not row.inside
    }
    return ErrorTable(what, unit, rows, efficiency.errors(rows), MappingProxyType(misses))


def _training_misses() -> Mapping[str, str]:
    """Return why a training case lies outside its band, where its own notes or part tell."""
    return {
        case.id: f"a part of its own ({case.part}), sold under the name {chip_name}"
        for case in efficiency.training_cases()
        if case.part != case.chip
        for chip_name in (case.chip,)
    }
