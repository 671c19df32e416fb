"""What keep_outputs stores: text and counts of tagged cells, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keep_outputs
import nbformat
import pytest

VIEW = "application/vnd.jupyter.widget-view+json"


def executed() -> Any:
    """Return a notebook as an application leaves it: with counts, figures, widget state and editor keys."""
    new = nbformat.v4
    told = new.new_output("execute_result", {"text/plain": "4", "text/html": "<b>4</b>"}, execution_count=2)
    printed = new.new_output("stream", name="stdout", text="done\n")
    drawn = new.new_output("display_data", {"text/plain": "Player", VIEW: {"model_id": "1"}})
    kept = {"tags": [keep_outputs.KEEP], "scrolled": True}
    notebook = new.new_notebook(
        cells=[
            new.new_markdown_cell("# Title", metadata={"jp-MarkdownHeadingCollapsed": True}),
            new.new_code_cell("drawn()", outputs=[drawn], execution_count=1),
            new.new_code_cell("2 + 2", outputs=[told], execution_count=2, metadata=kept),
            new.new_code_cell("print('done')", outputs=[printed], execution_count=3, metadata=kept),
            new.new_code_cell("", metadata={"collapsed": False}),
        ]
    )
    notebook.metadata.update(widgets={"state": {}}, colab={}, language_info={"version": "3.13"})
    return notebook


def test_only_tagged_cells_keep_text_and_count() -> None:
    kept = keep_outputs.keep(executed())
    assert [cell.get("execution_count") for cell in kept.cells] == [None, None, 2, 3, None]
    assert [len(cell.get("outputs", ())) for cell in kept.cells] == [0, 0, 1, 1, 0]
    assert kept.cells[2].outputs[0].data == {"text/plain": "4"}
    assert kept.cells[3].outputs[0].text == "done\n"


def test_ids_tags_and_kernel_stay_and_the_rest_of_the_metadata_goes() -> None:
    before = executed()
    after = keep_outputs.keep(before)
    assert [cell.id for cell in after.cells] == [cell.id for cell in before.cells]
    assert [dict(cell.metadata) for cell in after.cells[1:3]] == [{}, {"tags": [keep_outputs.KEEP]}]
    assert dict(after.metadata) == {"kernelspec": keep_outputs.KERNELSPEC}


def test_keeping_twice_changes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lesson.ipynb"
    path.write_text("")
    once = keep_outputs.keep(executed())
    assert keep_outputs.write(path, once)
    again = keep_outputs.keep(nbformat.read(path, as_version=4))
    assert again == once
    assert not keep_outputs.write(path, again)


def test_a_run_counts_cells_as_a_reader_who_runs_all_does(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="nbclient comes with JupyterLab and Notebook; here is neither")
    path = tmp_path / "lesson.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in ("x = 2", "", "x + 2")]),
        path,
    )
    run = keep_outputs.execute(path)
    assert [cell.execution_count for cell in run.notebook.cells] == [1, None, 2]
    assert run.notebook.cells[2].outputs[0].data["text/plain"] == "4"
    assert "widgets" not in run.notebook.metadata
    assert run.peak_bytes > 2**20
    assert run.seconds > 0


def test_a_cell_that_fails_ends_the_run_and_changes_no_file(tmp_path: Path) -> None:
    nbclient = pytest.importorskip(
        "nbclient", reason="nbclient comes with JupyterLab and Notebook; here is neither"
    )
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        keep_outputs.main([str(path)])
    assert path.read_bytes() == before
