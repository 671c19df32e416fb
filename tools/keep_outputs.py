"""Execute the notebooks and keep the outputs that nbval compares; drop everything else.

    python tools/keep_outputs.py                 # all notebooks, in place (`make notebooks`)
    python tools/keep_outputs.py notebooks/02_the_pulse.ipynb

A cell tagged `keep_output` keeps its text output and its execution count, numbered as a reader who runs all
cells sees it. Every other cell keeps neither. Widget state, editor keys and cell metadata other than tags go.
Running it twice changes nothing. Set PULSEWARP_SKIP=1 to run without the predictions, as the tests do.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
KEEP = "keep_output"
CELL_SECONDS = 120  # a cell that takes longer hangs, or is no cell for a lesson

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


def paths() -> list[Path]:
    """Return the lessons, in their order."""
    return sorted(FOLDER.glob("*.ipynb"))


def source_of(cell: Mapping[str, Any]) -> str:
    """Return a cell's text; nbformat allows one string or a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def is_kept(cell: Mapping[str, Any]) -> bool:
    return KEEP in cell.get("metadata", {}).get("tags", ())


@dataclass(frozen=True)
class Run:
    """A notebook that was executed to its end, and what that took."""

    notebook: nbformat.NotebookNode
    seconds: float
    peak_bytes: int


def execute(path: Path) -> Run:
    """Run every cell of a notebook in a fresh kernel of this Python; the first error ends it."""
    from nbclient import NotebookClient  # here: tests that only read notebooks have no nbclient

    os.environ["TQDM_DISABLE"] = "1"  # a kept output holds no bar, and nbval's kernel shows none
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
    )
    start = time.perf_counter()
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        peak = peak_bytes(client.km.provisioner.pid)
    return Run(notebook, time.perf_counter() - start, peak)


def peak_bytes(pid: int) -> int:
    """Return the most memory a process has held; where the system does not keep it, what it holds now."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(peak.split()[1])
    import psutil

    return int(psutil.Process(pid).memory_info().rss)


def keep(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an executed notebook with what is compared and nothing else."""
    kept = nbformat.v4.new_notebook(cells=[_kept_cell(cell) for cell in notebook.cells])
    kept.metadata["kernelspec"] = dict(KERNELSPEC)
    kept.nbformat_minor = 5  # the form in which cells have ids
    return kept


def _kept_cell(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    clean = nbformat.NotebookNode(cell_type=cell.cell_type, id=cell.id, source=source_of(cell))
    tags = cell.metadata.get("tags", [])
    clean["metadata"] = nbformat.NotebookNode(tags=list(tags)) if tags else nbformat.NotebookNode()
    if cell.cell_type == "code":
        keeps = is_kept(cell)
        clean["execution_count"] = cell.execution_count if keeps else None
        clean["outputs"] = [_kept_output(output) for output in cell.outputs] if keeps else []
    return clean


def _kept_output(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return an output as text alone; what must not be compared is left for tests/notebooks to name."""
    if "data" not in output:
        return output
    text = {form: value for form, value in output.data.items() if form == "text/plain"}
    clean = nbformat.NotebookNode(output)
    clean["data"], clean["metadata"] = nbformat.NotebookNode(text), nbformat.NotebookNode()
    return clean


def write(path: Path, notebook: nbformat.NotebookNode) -> bool:
    """Write a notebook if that changes the file; tell whether it did."""
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    if path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description="Execute notebooks; keep the outputs nbval compares.")
    options.add_argument("notebooks", nargs="*", type=Path, default=paths())
    for path in options.parse_args(arguments).notebooks:
        run = execute(path)
        changed = write(path, keep(run.notebook))
        words = "changed" if changed else "as it was"
        print(f"{path.name:<28} {run.seconds:6.1f} s {run.peak_bytes / 2**20:7.0f} MiB  {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
