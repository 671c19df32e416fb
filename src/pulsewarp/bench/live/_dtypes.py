"""Types and precisions that can be timed: the catalogue's names and JAX's."""

from __future__ import annotations

from types import ModuleType

from pulsewarp._checks import nearest
from pulsewarp.bench.measurement import PRECISIONS

# Catalogue name of a factor's type that can be timed, and JAX's name for it.
_TIMED = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
JAX_NAMES = _TIMED | {"int32": "int32"}  # results too
_NOT_TIMED = {
    "tf32": "TF32 is how an NVIDIA GPU may multiply float32 values, not a type to store them in; "
    "use dtype='float32' with precision='default' and look at the error",
    "fp64": "JAX computes in float32 unless told otherwise, and few matrix units have float64; "
    "use dtype='float32'",
    "fp8": "no chip that multiplies fp8 could be reached to check it on; use dtype='bfloat16'",
    "fp4": "JAX stores fp4 but multiplies it on few chips; use dtype='bfloat16'",
    "int4": "JAX stores int4 but multiplies it on few chips; use dtype='int8'",
}
_NAMES = {stored: name for name, stored in _TIMED.items()} | {name: name for name in _TIMED}

# JAX's own aliases of a precision (jax.lax.Precision, read 2026-11-30).
_PRECISION_ALIASES = {
    "fastest": "default",
    "bfloat16": "default",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "float32": "highest",
}


def catalogue_dtype(name: object) -> str:
    """Catalogue name of a dtype that can be timed."""
    word = str(name)
    if word in _NAMES:
        return _NAMES[word]
    if word in _NOT_TIMED or word.startswith("float8"):
        raise ValueError(f"dtype {word!r} cannot be timed here: {_NOT_TIMED.get(word, _NOT_TIMED['fp8'])}.")
    raise ValueError(f"Unknown dtype {name!r}; use one of {', '.join(_NAMES)}.{nearest(name, _NAMES)}")


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
