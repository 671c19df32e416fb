"""The compiler's work on this CPU for real, and with fakes for what other versions and backends give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pulsewarp import bench
from pulsewarp.bench.live import compiler
from pulsewarp.matmul import Matmul

jax: Any = pytest.importorskip("jax", reason="JAX is optional; without it nothing is compiled")

A, B = np.ones((96, 64), np.float32), np.ones((64, 32), np.float32)


def layer(a: Any, b: Any) -> Any:
    return jax.nn.relu(a @ b) + 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_a_product_is_found_in_its_program_and_counted(dtype: str) -> None:
    made = bench.inspect_matmul(64, 128, 32, dtype=dtype, precision="highest")
    (product,) = made.program.products
    assert made.program.unread == 0 and made.platform == "cpu"
    assert product.operation.precision in ("highest", None)  # None: a call into a library does not say
    assert product.operation.shape.lstrip("(").split("[")[1].startswith("64,32]")
    assert made.matmul is not None and made.matmul.flops == 2 * 64 * 128 * 32
    if made.flops_ratio is None:
        assert made.partial or "gives no FLOPs" in made.remarks[0]
    else:
        assert 1 <= made.flops_ratio < 1.1 and made.bytes_ratio is not None and made.bytes_ratio >= 1


def test_large_products_are_looked_at_without_making_them() -> None:
    made = bench.inspect_matmul(60_000, 60_000, 60_000)  # 43 GB, were it made
    assert made.matmul is not None and made.matmul.flops == 2 * 60_000**3


def test_a_function_is_compiled_as_it_would_run() -> None:
    made = bench.compiled(layer, A, B, matmul=Matmul(96, 64, 32, "fp32"))
    assert made.program.entry.operations[-1].shape == "f32[96,32]"
    assert made.memory_bytes["results"] == 96 * 32 * 4
    assert bench.compiled(jax.jit(layer), A, B).program.products
    assert bench.compiled(layer, jax.ShapeDtypeStruct(A.shape, A.dtype), B).program.products
    assert set(made.versions) == {"jax", "jaxlib"}


COUNTS = {"flops": 5.0, "bytes accessed": 7.0}


@pytest.mark.parametrize(
    ("analysis", "known"),
    [
        (lambda: [COUNTS], (5.0, 7.0)),  # before JAX 0.5
        (lambda: COUNTS, (5.0, 7.0)),
        (lambda: {"flops": -1.0, "bytes accessed": 7.0}, (None, 7.0)),
        (lambda: {"utilization0{}": 1.0}, (None, None)),
        (list, (None, None)),
        (lambda: None, (None, None)),
    ],
    ids=["list", "dictionary", "minus one", "lacking", "empty", "none"],
)
def test_costs_of_every_form_are_read(analysis: Any, known: tuple[float | None, ...]) -> None:
    assert compiler._cost(SimpleNamespace(cost_analysis=analysis)) == (*known, None)


def test_a_backend_without_an_analysis_is_quoted() -> None:
    def fail() -> None:
        raise NotImplementedError("UNIMPLEMENTED: not here\nsecond line")

    found = compiler._cost(SimpleNamespace(cost_analysis=fail))
    assert found == (None, None, "NotImplementedError: UNIMPLEMENTED: not here")
    assert compiler._memory(SimpleNamespace(memory_analysis=fail)) == {}


def test_a_profile_shows_each_call_and_the_operations_of_the_program() -> None:
    taken = bench.profile(layer, A, B, calls=3)
    assert [call.name for call in taken.calls] == ["call 1 of 3", "call 2 of 3", "call 3 of 3"]
    for event in taken.events:
        assert event.start >= 0 and event.start + event.seconds <= taken.seconds * (1 + 1e-9)
    names = {each.name for each, _ in bench.compiled(layer, A, B).program.walk()}
    found = {each.name for each in taken.totals if each.category in ("operation", "handed over")}
    assert found <= names, "a profile names operations as the program does"
    assert found or "records no single operation" in "".join(taken.notes)
    assert taken.folder is None


def test_files_are_kept_where_asked(tmp_path: Path) -> None:
    taken = bench.profile(layer, A, B, calls=1, folder=tmp_path / "kept")
    again = bench.read_timeline(tmp_path / "kept")
    assert again == taken and taken.folder == str(tmp_path / "kept")
    kept = {file.name for file in (tmp_path / "kept").rglob("*.gz")}
    assert "perfetto_trace.json.gz" in kept and len(kept) == 2


def test_another_trace_is_left_alone_and_said(tmp_path: Path) -> None:
    with jax.profiler.trace(str(tmp_path)):
        taken = bench.profile(layer, A, B)
    assert taken.events == () and "another trace is being taken" in taken.notes[0]
    assert list(tmp_path.rglob("*.trace.json.gz")), "the other trace goes on to its end"
    assert bench.profile(layer, A, B).calls


@pytest.mark.parametrize("content", [None, b"cut"], ids=["nothing", "broken"])
def test_a_profiler_that_writes_nothing_is_said(
    content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def trace(folder: str, **_: object) -> Iterator[None]:
        yield
        if content:
            (Path(folder) / "x.trace.json.gz").write_bytes(content)

    monkeypatch.setattr(jax.profiler, "trace", trace)
    taken = bench.profile(layer, A, B)
    assert taken.notes[0].startswith("The profiler gave nothing:") and taken.events == ()
    assert "/tmp" not in taken.notes[0]


def test_a_function_that_fails_ends_its_trace() -> None:
    calls = iter([1.0])

    def once() -> Any:
        return next(calls)

    failing = type("Once", (), {"lower": None, "__call__": staticmethod(once)})()
    with pytest.raises(StopIteration):
        bench.profile(failing, calls=2)
    assert bench.profile(layer, A, B, calls=1).calls, "the profiler is free again"
