"""A value that is not known exactly: a low, a most likely and a high number."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real


@dataclass(frozen=True, repr=False)
class Band:
    """An 80 % band: one case in ten should lie below `low`, one in ten above `high`.

    Parameters
    ----------
    low, value, high : float
        In the unit of whatever the band belongs to; low <= value <= high.

    Examples
    --------
    >>> Band(1.0, 2.0, 4.0) * 3
    Band(low=3, value=6, high=12)
    >>> Band(1.0, 2.0, 4.0) + 1
    Band(low=2, value=3, high=5)
    >>> Band(1.0, 2.0, 4.0) / Band(1.0, 2.0, 2.0)
    Band(low=0.5, value=1, high=4)
    """

    low: float
    value: float
    high: float

    def __post_init__(self) -> None:
        numbers = (self.low, self.value, self.high)
        plain = type(self.low) is type(self.value) is type(self.high) is float  # usual, and quickly seen
        if (
            not (plain or all(isinstance(number, Real) for number in numbers))
            or not numbers[0] <= numbers[1] <= numbers[2]
        ):
            raise ValueError(
                f"A band is low {self.low!r}, value {self.value!r}, high {self.high!r}, but must be three "
                f"numbers in that order; sort them."
            )

    def __mul__(self, other: Band | float) -> Band:
        """Multiply band by band, low with low: the widest reading, as if both erred together."""
        if isinstance(other, Band):
            return Band(self.low * other.low, self.value * other.value, self.high * other.high)
        return Band(self.low * other, self.value * other, self.high * other)

    def __add__(self, other: Band | float) -> Band:
        """Add band to band, low to low, or shift by a number."""
        if isinstance(other, Band):
            return Band(self.low + other.low, self.value + other.value, self.high + other.high)
        return Band(self.low + other, self.value + other, self.high + other)

    def __truediv__(self, other: Band | float) -> Band:
        """Divide low by high and high by low: the widest reading again."""
        if isinstance(other, Band):
            return Band(self.low / other.high, self.value / other.value, self.high / other.low)
        return Band(self.low / other, self.value / other, self.high / other)

    def __repr__(self) -> str:
        # Four digits: a band is never known better, and the text is then the same on every machine.
        return f"Band(low={self.low:.4g}, value={self.value:.4g}, high={self.high:.4g})"

    def __str__(self) -> str:
        if self.low == self.high:
            return short(self.value)
        return f"{short(self.value)} ({short(self.low)} to {short(self.high)})"

    def to_dict(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return {"low": self.low, "value": self.value, "high": self.high}


def short(number: float) -> str:
    """Write a number with three digits, without an exponent where a person would not use one.

    Examples
    --------
    >>> short(1234567.0), short(0.01234), short(2.0)
    ('1,230,000', '0.0123', '2')
    """
    if number == 0 or not 1e-4 <= abs(number) < 1e12:
        return f"{number:.3g}"
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 or rounded == int(rounded) else f"{rounded:.10g}"
