"""A fault planted in either simulator turns strict nbval red on the lesson that shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import keep_outputs
import pytest

pytest.importorskip(
    "nbclient", reason="lessons are compared where an application to read them in is installed; here is none"
)

pytestmark = pytest.mark.exhaustive

# Each stands in a start-up file of IPython: it runs in the kernel of the notebook, before the first cell, and
# nowhere else. All are small: one cycle of skew too many, one scheduling rule for another, lanes counted
# for sectors.
FAULTS = {
    "02_the_pulse": (
        "from dataclasses import replace\nfrom pulsewarp.systolic import rules\n"
        "rules.RULES = replace(rules.RULES, skew_rows=lambda row: row + 1)\n"
    ),
    "03_the_warp": "from pulsewarp.simt._policy import POLICIES\nPOLICIES['lrr'] = POLICIES['oldest']\n",
    "03b_your_own_kernel": (
        "from pulsewarp.simt.tracing import stream\n"
        "stream._count = lambda space, size, mask, relative: mask.bit_count()\n"
    ),
}


def run_nbval(lesson: Path, folder: Path, at_start: str) -> subprocess.CompletedProcess[str]:
    """Run strict nbval on a copy of a lesson, in a kernel that runs `at_start` first."""
    start_up = folder / "ipython" / "profile_default" / "startup"
    start_up.mkdir(parents=True)
    (start_up / "00_fault.py").write_text(at_start, encoding="utf-8")
    shutil.copy(lesson, folder)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # not this project's settings
    command = [
        *(sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"),
        *("--exitfirst", lesson.name),  # one difference is all that is asked for
    ]
    environment = {
        **os.environ,
        "IPYTHONDIR": str(folder / "ipython"),
        "PULSEWARP_SKIP": "1",
        "PYTEST_ADDOPTS": "",
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("lesson", FAULTS)
def test_a_planted_fault_turns_nbval_red(lesson: str, tmp_path: Path) -> None:
    red = run_nbval(keep_outputs.FOLDER / f"{lesson}.ipynb", tmp_path, FAULTS[lesson])
    assert red.returncode == 1, red.stdout + red.stderr
    # Red because an output was compared and differs, not because the kernel did not start.
    assert "Cell outputs differ" in red.stdout, red.stdout


def test_without_a_fault_nbval_is_green(tmp_path: Path) -> None:
    # The shortest lesson shows that the copy and the start-up file change nothing; that every lesson is green
    # as it stands is for nbval itself to show, in the notebooks' own run.
    green = run_nbval(keep_outputs.FOLDER / "00_start_here.ipynb", tmp_path, "")
    assert green.returncode == 0, green.stdout + green.stderr
