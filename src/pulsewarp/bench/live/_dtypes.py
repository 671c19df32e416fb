"""Types and precisions that can be timed: the catalogue's names and JAX's."""

from __future__ import annotations

from types import ModuleType

from pulsewarp._checks import nearest
from pulsewarp.bench.measurement import PRECISIONS, STORED

# JAX's name of a factor's type that can be timed, and the catalogue's for it.
_TIMED = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "int8": "int8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}
TIMED_DTYPES = tuple(_TIMED)
"""All types that can be asked for, by JAX's names; a device may lack some of them."""

JAX_NAMES = {name: STORED[name] for name in _TIMED.values()} | {"int32": "int32"}
"""JAX's name of a catalogue dtype, of factors and of results."""

_NOT_TIMED = {
    "tf32": "TF32 is how an NVIDIA GPU may multiply float32 values, not a type to store them in; "
    "use dtype='float32' with precision='default' and look at the error",
    "fp64": "JAX computes in float32 unless told otherwise, and few matrix units have float64; "
    "use dtype='float32'",
    "fp4": "JAX stores fp4 but multiplies it on few chips; use dtype='bfloat16'",
    "int4": "JAX stores int4 but multiplies it on few chips; use dtype='int8'",
}
_OTHER_FP8 = "of the 8-bit floats only two can be timed; use dtype='float8_e4m3fn' or dtype='float8_e5m2'"

# JAX's own aliases of a precision (jax.lax.Precision, read 2026-11-30).
_PRECISION_ALIASES = {
    "fastest": "default",
    "bfloat16": "default",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "float32": "highest",
}


def stored_dtype(name: object) -> str:
    """Return JAX's name of a dtype that can be timed, asked for by JAX's name or the catalogue's."""
    word = str(name)
    if word in _TIMED:
        return word
    if word in _TIMED.values():
        return STORED[word]
    if word in _NOT_TIMED or word.startswith("float8"):
        raise ValueError(f"dtype {word!r} cannot be timed here: {_NOT_TIMED.get(word, _OTHER_FP8)}.")
    known = list(dict.fromkeys((*_TIMED, *_TIMED.values())))
    raise ValueError(f"Unknown dtype {name!r}; use one of {', '.join(known)}.{nearest(name, known)}")


def catalogue_dtype(name: object) -> str:
    """Return the catalogue's name of a dtype that can be timed."""
    return _TIMED[stored_dtype(name)]


def precision_setting(jax: ModuleType) -> str:
    """Return what JAX takes when no precision is given, by one of its three plain names."""
    setting = jax.config.jax_default_matmul_precision or "default"
    setting = _PRECISION_ALIASES.get(setting, setting)
    if setting not in PRECISIONS:
        raise ValueError(
            f"jax_default_matmul_precision is {setting!r}, which is none of {', '.join(PRECISIONS)}; "
            "pass precision= to say which one to time."
        )
    return str(setting)
