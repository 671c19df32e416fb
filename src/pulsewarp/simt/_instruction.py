"""What a warp executes: one instruction, and a program compiled once for the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from pulsewarp import _checks

# Longer waits than this teach nothing and would only fill memory with one repeated state.
MOST_CYCLES = 1_000_000
LANES = 32


@_checks.class_names_keywords
@dataclass(frozen=True, slots=True)
class Instruction:
    """One warp instruction: the unit it needs, what it reads and writes, and when its result is there.

    Modelled: registers by name, a latency and an issue interval. Not modelled: register banks,
    dual issue, caches (a load takes the latency written here), write-after-read hazards.

    Parameters
    ----------
    unit : str
        ``"mem"``: one unit per SM. ``"bar"``: a barrier over the warps of a block, which needs no unit
        and ignores `latency`, `interval`, `dst` and `srcs`. Any other word (``"alu"``, ``"sfu"``, ...):
        one unit of that name per scheduler.
    latency : int
        Cycles from issue until the result can be read, at least 1.
    interval : int
        Cycles from issue until the unit takes its next instruction, at least 1.
    dst : str or None
        The register written, or None (a store).
    srcs : sequence of str
        The registers read.
    text : str
        How a listing shows it; made from the other fields when empty.
    lanes : int
        Active lanes, 1 to 32.

    Raises
    ------
    ValueError
        When a number is out of its range or `srcs` is one word instead of several.

    Examples
    --------
    >>> Instruction(unit="alu", latency=4, interval=1, dst="r0", srcs=("r0",)).text
    'ALU r0, r0'
    """

    unit: str = "alu"
    latency: int = 4
    interval: int = 1
    dst: str | None = None
    srcs: tuple[str, ...] = ()
    text: str = ""
    lanes: int = LANES

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str) or not self.unit:
            raise ValueError(f"unit is {self.unit!r}, but must be a word such as 'alu', 'mem' or 'bar'.")
        if self.unit == "bar":
            # Ignored by the model, so set to one value each: equal barriers compare equal.
            fields: dict[str, object] = {"latency": 1, "interval": 1, "dst": None, "srcs": ()}
        else:
            if isinstance(self.srcs, str):
                raise ValueError(f"srcs is {self.srcs!r}, but must be several names; write ({self.srcs!r},).")
            srcs = _checks.several("srcs", self.srcs, "write () where nothing is read")
            for register in (*srcs, *([] if self.dst is None else [self.dst])):
                if not isinstance(register, str) or not register:
                    raise ValueError(f"A register is {register!r}, but must be a name such as 'r0'.")
            fields = {
                "latency": _checks.whole_number("latency", self.latency, most=MOST_CYCLES),
                "interval": _checks.whole_number("interval", self.interval, most=MOST_CYCLES),
                "srcs": srcs,
            }
        if not isinstance(self.text, str):
            raise ValueError(
                f"text is {self.text!r}, but must be what a listing shows, such as 'FADD r0, r1'."
            )
        fields["lanes"] = _checks.whole_number("lanes", self.lanes, most=LANES)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if not self.text:
            operands = ([self.dst] if self.dst else []) + list(self.srcs)
            object.__setattr__(self, "text", f"{self.unit.upper()} {', '.join(operands)}".rstrip())

    @property
    def mnemonic(self) -> str:
        """The first word of `text`, which sentences use."""
        return self.text.split()[0]


def bar() -> Instruction:
    """Return a block barrier.

    Examples
    --------
    >>> bar()
    Instruction(unit='bar', latency=1, interval=1, dst=None, srcs=(), text='BAR', lanes=32)
    """
    return Instruction(unit="bar")
