"""A fault planted in either simulator turns strict nbval red on the lesson that shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import keep_outputs
import pytest

pytest.importorskip(
    "nbclient", reason="lessons are compared where an application to read them in is installed; here is none"
)

pytestmark = pytest.mark.exhaustive

# Each runs in the kernel of its lesson, before the first cell, and nowhere else. All are small: one cycle of
# skew too many, one scheduling rule for another, lanes counted for sectors. The shortest lesson has none: it
# shows that the copies and the start-up file change nothing. That every lesson is green as it stands is for
# nbval itself to show, in the notebooks' own run.
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
    "00_start_here": "",
}

# A start-up file of IPython, one for all kernels: each runs in the folder of its lesson.
START_UP = f"import pathlib\nexec({FAULTS!r}[pathlib.Path.cwd().name])\n"

# One difference in a lesson is all that is asked for: its other cells are left out then.
ONE_IS_ENOUGH = """
import pytest

red = set()

def pytest_runtest_logreport(report):
    if report.failed:
        red.add(report.nodeid.partition("::")[0])

def pytest_runtest_setup(item):
    if item.nodeid.partition("::")[0] in red:
        pytest.skip("one difference is enough")
"""


def run_nbval(folder: Path) -> tuple[dict[str, list[str]], str]:
    """Run strict nbval on copies of the lessons; return what failing cells of each say, and all output."""
    start_up = folder / "ipython" / "profile_default" / "startup"
    start_up.mkdir(parents=True)
    (start_up / "00_fault.py").write_text(START_UP, encoding="utf-8")
    for lesson in FAULTS:
        (folder / lesson).mkdir()
        shutil.copy(keep_outputs.FOLDER / f"{lesson}.ipynb", folder / lesson)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # not this project's settings
    (folder / "conftest.py").write_text(ONE_IS_ENOUGH, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"),
        *("--junit-xml", "report.xml", *FAULTS),
    ]
    environment = {
        **os.environ,
        "IPYTHONDIR": str(folder / "ipython"),
        "PULSEWARP_SKIP": "1",
        "PYTEST_ADDOPTS": "",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    told: dict[str, list[str]] = {lesson: [] for lesson in FAULTS}
    passed = dict.fromkeys(FAULTS, 0)
    report = ElementTree.parse(folder / "report.xml")
    for case in report.iter("testcase"):
        lesson = case.attrib["classname"].partition(".")[0]
        passed[lesson] += len(case) == 0
        told[lesson] += ["".join(each.itertext()) for each in case if each.tag in ("failure", "error")]
    assert all(passed.values()), f"of a lesson nothing ran: {passed}\n{done.stdout}{done.stderr}"
    return told, done.stdout + done.stderr


def test_each_planted_fault_turns_nbval_red_at_its_lesson_and_without_one_it_is_green(tmp_path: Path) -> None:
    told, printed = run_nbval(tmp_path)
    assert [lesson for lesson, cells in told.items() if not cells] == ["00_start_here"], printed
    # Red because an output was compared and differs, not because the kernel did not start.
    words = "Cell outputs differ"
    assert [cells for cells in told.values() if cells and words not in cells[0]] == [], printed
