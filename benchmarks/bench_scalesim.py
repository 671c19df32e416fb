"""The same question put to SCALE-Sim 3.0.0: how much longer it takes, measured in one run with ours.

SCALE-Sim lives in an environment of its own under .cache, because it needs a NumPy below 2.4. It is fetched
once; where that fails, the row says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from pulsewarp import systolic

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / ".cache" / f"scalesim-3.0.0-py{sys.version_info[0]}.{sys.version_info[1]}"
PACKAGES = ("scalesim==3.0.0", "numpy<2.4")  # it crashes on newer ones (its issue 160)
SIDE, CELLS, DATAFLOW = 512, 128, "ws"
ROUNDS = 3
NAME = f"SCALE-Sim over stepping, {SIDE} cubed on {CELLS}x{CELLS}"


class NotFetchedError(RuntimeError):
    """SCALE-Sim could not be installed here."""


def fetch() -> str:
    """Return the Python of an environment that has SCALE-Sim, made if it is not there."""
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = ENVIRONMENT / "ready"
    if ready.exists():
        return str(python)
    uv = shutil.which("uv")
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(ENVIRONMENT)]
        install = [uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES]
    else:
        make = [sys.executable, "-m", "venv", str(ENVIRONMENT)]
        install = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    for command in (make, install):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired:
            raise NotFetchedError("it took over three minutes") from None
        except subprocess.CalledProcessError as failed:
            said = (failed.stderr or failed.stdout or "").strip().splitlines()
            reason = said[-1].strip() if said else f"{command[0]} ended with {failed.returncode}"
            raise NotFetchedError(reason) from failed
    ready.touch()
    return str(python)


def step_seconds() -> float:
    """Return the best of a few runs of ours, every register stepped, in processor time."""
    a = np.ones((SIDE, SIDE), np.float32)
    times = []
    for _ in range(3):
        start = time.process_time()
        systolic.simulate(a, a, rows=CELLS, cols=CELLS, dataflow=DATAFLOW, trace=False)
        times.append(time.process_time() - start)
    return min(times)


def ask(python: str) -> dict[str, float]:
    """Return the processor times of SCALE-Sim, once its cycles are those of our closed form."""
    command = [python, str(HERE / "scalesim_once.py"), str(SIDE), str(CELLS), DATAFLOW]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    ours = systolic.gemm(
        m=SIDE, k=SIDE, n=SIDE, rows=CELLS, cols=CELLS, dataflow=DATAFLOW, convention="scalesim"
    )
    if found.pop("cycles") != ours.cycles:
        raise AssertionError(f"SCALE-Sim was asked another question: not the {ours.cycles} cycles of {ours}")
    return found


def bench_scalesim() -> list[dict[str, Any]]:
    """Alternate the two programs and compare the best of each, in processor time.

    Its command saves a trace of every access; that is what it is held to. Without them it only counts, where
    ours steps every register all the same.
    """
    try:
        python = fetch()
    except NotFetchedError as reason:
        return [{"name": NAME, "value": None, "unit": "ratio", "why": f"SCALE-Sim was not fetched: {reason}"}]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(step_seconds())
        theirs.append(ask(python))
    ratios = {way: min(times[way] for times in theirs) / min(ours) for way in theirs[0]}
    return [
        {"name": f"{NAME}, its traces saved", "value": ratios["with traces"], "unit": "ratio",
         "limit": 30, "better": "higher"},
        {"name": f"{NAME}, not saved", "value": ratios["without traces"], "unit": "ratio"},
    ]  # fmt: skip
