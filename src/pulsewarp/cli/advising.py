"""The command ``pulsewarp advise``: a workload in, a verdict and its report out, as text or as files."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pulsewarp import guide
from pulsewarp._files import write_text_atomically

_FILES = {
    "html": "write the report as a page that needs no network and prints on A4",
    "markdown": "write the report as Markdown",
    "terraform": "write a Terraform file that rents the pilot's machines, with a budget alert",
    "gcloud": "write a shell script that does the same with gcloud",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options of ``pulsewarp advise``.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The command's own.
    """
    parser.add_argument(
        "workload", nargs="?", type=Path, metavar="workload.yaml", help="a workload as YAML or JSON"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print everything as JSON")
    shape.add_argument("--short", action="store_true", help="print the verdict and what decided it")
    files = parser.add_argument_group("files")
    for name, about in _FILES.items():
        files.add_argument(f"--{name}", type=Path, metavar="FILE", help=about)
    own = parser.add_argument_group("measured", "your own runs take the place of published ones")
    own.add_argument(
        "--measured", type=Path, nargs="+", default=[], metavar="FILE", help="what pulsewarp bench wrote"
    )
    own.add_argument(
        "--own-run",
        type=_own_run,
        nargs="+",
        default=[],
        metavar="CHIP:RATE",
        help="your workload, timed: tpu_v6e:919, or tpu_v6e:919:8 for 8 chips, or tpu_v6e:919:8:64 "
        "for 64 sequences served at once; the rate is in tokens a second for one chip",
    )
    parser.usage = (
        "pulsewarp advise [workload.yaml] [--FIELD VALUE ...] [--json | --short] [--html FILE] "
        "[--markdown FILE] [--terraform FILE] [--gcloud FILE] [--measured FILE ...] [--own-run CHIP:RATE ...]"
    )
    fields = parser.add_argument_group("fields", "each may be left out; unknown is an answer")
    for field in dataclasses.fields(guide.Workload):
        words = guide.VOCABULARY.get(field.name)
        fields.add_argument(
            f"--{field.name.replace('_', '-')}",
            dest=f"field_{field.name}",
            metavar="WORD" if words else "TEXT" if _is_word(field.type) else "NUMBER",
            help=", ".join(words) if words else None,
        )


def run(options: argparse.Namespace, check_folder: Callable[[Path], None]) -> None:
    """Advise, print, and write the files that were asked for.

    Parameters
    ----------
    options : argparse.Namespace
        As parsed.
    check_folder : callable
        Raises where a path cannot be written to; asked before anything is computed.
    """
    asked = {name: path for name in _FILES if (path := getattr(options, name)) is not None}
    _check_paths(list(asked.values()), check_folder)
    workload = guide.Workload(**_known(options))
    measured = _measured(options.measured, options.own_run)
    advice = guide.advise(workload, measured=measured) if measured else guide.advise(workload)
    texts = {path: _text(name, advice) for name, path in asked.items()}  # all, before the first is written
    if options.json:
        print(json.dumps(advice.to_dict(), indent=1, allow_nan=False))
    else:
        print(advice.summary if options.short else str(advice))
    for path, text in texts.items():
        print(f"wrote {write_text_atomically(path, text)}", file=sys.stderr if options.json else sys.stdout)


def _check_paths(paths: Sequence[Path], check_folder: Callable[[Path], None]) -> None:
    for number, path in enumerate(paths):
        check_folder(path)
        if path.is_file() or not path.exists():  # two may go to one pipe, but not to one file
            for other in paths[:number]:
                if other.resolve() == path.resolve():
                    raise ValueError(f"Two files would be written to {path}; name two.")


def _known(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that the file and the options name; an option goes before the file."""
    known: dict[str, Any] = {}
    if options.workload is not None:
        known = guide.Workload.load(options.workload).known()
    for field in dataclasses.fields(guide.Workload):
        word = getattr(options, f"field_{field.name}")
        if word is not None:
            known[field.name] = word if _is_word(field.type) else _number(word)
    return known


def _measured(paths: Sequence[Path], own_runs: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    from pulsewarp.bench.measurement import Measurement, load

    rows: list[Any] = [guide.OwnRun(**given) for given in own_runs]
    for path in paths:
        found = load(path, only=Measurement)
        if not found:
            raise ValueError(
                f"{path} holds no matrix products, so the guide has nothing to learn from it; write one with "
                "pulsewarp bench --out."
            )
        rows += found
    return tuple(rows)


def _own_run(words: str) -> dict[str, Any]:
    """Read CHIP:RATE[:CHIPS[:BATCH]]; what the words mean is for the guide to judge."""
    chip, *numbers = words.split(":")
    names = ("tokens_per_second_per_chip", "n_chips", "batch")
    if not 1 <= len(numbers) <= len(names):
        raise argparse.ArgumentTypeError(f"{words!r} is no run; write chip and rate as tpu_v6e:919.")
    return {"chip": chip, **{name: _number(word) for name, word in zip(names, numbers, strict=False)}}


def _text(name: str, advice: guide.Advice) -> str:
    from pulsewarp.guide.report import as_markdown
    from pulsewarp.guide.report_page import as_page

    if name == "html":
        return as_page(advice, made=datetime.date.today().isoformat())
    if name == "markdown":
        return as_markdown(advice)
    return advice.pilot.terraform() if name == "terraform" else advice.pilot.gcloud()


def _is_word(annotation: object) -> bool:
    return "str" in str(annotation)


def _number(word: str) -> int | float | str:
    """Read a number where there is one; the workload refuses what is left, by the field's name."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
