"""The command ``pulsewarp``: doctor, bench, compare, advise, export.

Bad input ends with status 2 and one sentence on stderr, never with a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import pulsewarp
from pulsewarp._files import write_text_atomically

_INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C


class _Parser(argparse.ArgumentParser):
    """An argument parser that answers in one sentence, with the nearest valid option."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def parse_all(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse, and name the nearest option for one that does not exist."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            from pulsewarp._checks import nearest

            parser: argparse.ArgumentParser = getattr(options, "parser", self)
            word = unknown[0].split("=")[0]
            hint = nearest(word, parser._option_string_actions) if word.startswith("-") else ""
            parser.error(f"unknown argument {word!r}.{hint} See {parser.prog} --help.")
        return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``pulsewarp``; those of this process when left out.

    Returns
    -------
    int
        0 when all is well, 2 for bad input or where nothing could be measured, which is answered by one
        sentence on stderr, and 130 after an interrupt, with a sentence that says what is kept.

    Examples
    --------
    >>> main(["advise", "--framework", "pytorch", "--custom-kernels", "triton", "--short"])
    Use GPUs. The work depends on Triton kernels, which no TPU runs.
    0
    """
    prog = "pulsewarp"
    try:
        options = _build_parser().parse_all(arguments)
        prog = options.parser.prog
        status: int | None = options.run(options)
    except (ValueError, TypeError, OSError, ImportError, RuntimeError, MemoryError) as error:
        sentence = " ".join(_sentence(error).split())
        print(f"{prog}: {sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{prog}: interrupted.", file=sys.stderr)
        return _INTERRUPTED
    return status or 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


# --- doctor ------------------------------------------------------------------------------------------------

# What scenes and exported pages stand on; the device card names what measuring stands on.
_LIBRARIES = (
    *("ipywidgets", "anywidget", "traitlets", "plotly", "jupyterlab", "notebook", "nbconvert"),
    "ipykernel",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox")


def _doctor(options: argparse.Namespace) -> None:
    from pulsewarp import bench

    if options.measure:
        bench.ceilings()  # the card shows them from then on
    print(bench.devices())
    print(f"{'Energy:':<11}{_energy()}")
    print(f"{'Lessons:':<11}{', '.join(f'{name} {_version(name)}' for name in _LIBRARIES)}")
    print(f"{'Browser:':<11}{_browser()}")


def _energy() -> str:
    """Say whether a card here tells what power it draws; nothing is run on it."""
    from pulsewarp.bench import host, nvml

    if not host.look().has_nvidia:
        return "not measurable here: this machine shows no NVIDIA GPU."
    try:
        library = nvml.open_library()
        library.close()
    except nvml.UnreadableError as error:
        return f"not measurable here: {error}"
    return "measurable: bench.energy_of_matmul(m, k, n)"


def _version(name: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _browser() -> str:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    return found or "none on the search path; scenes play in any browser you open them with"


# --- bench -------------------------------------------------------------------------------------------------


def _bench(options: argparse.Namespace) -> int:
    from pulsewarp import bench
    from pulsewarp.bench.measurement import dumps

    if options.out is not None:
        _check_folder(options.out)  # before minutes of measuring, not after
    with _warnings_as_sentences(options.parser.prog) as warned:
        runs = bench.sweep(
            options.sweep or options.size or options.shape,
            dtype=options.dtype,
            precision=options.precision,
            repeats=options.repeats,
            clock=options.clock,
            budget_seconds=options.budget,
            memory_bytes=None if options.memory is None else options.memory * 2**20,
            progress=print,
            out=options.out,
        )
    status = _INTERRUPTED if bench.InterruptedWarning in warned else 0
    if not runs and not status:
        kept = "" if options.out is None else f", so {options.out} is left as it was"
        raise RuntimeError(f"Nothing was measured{kept}.")
    if options.out is None or not runs:
        return status
    try:
        print(f"wrote {bench.save(options.out, runs)}")
    except OSError as error:
        print(dumps(runs), end="")
        raise OSError(
            f"{options.out} could not be written ({error.strerror or error}); its content stands above."
        ) from error
    return status


@contextlib.contextmanager
def _warnings_as_sentences(prog: str) -> Iterator[list[type[Warning]]]:
    """Let a warning stand on stderr without the file, line and code that gave it; yield the kinds of them."""
    from pulsewarp.bench import InterruptedWarning

    kinds: list[type[Warning]] = []
    write, show = warnings.formatwarning, warnings.showwarning

    def seen(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        kinds.append(category)
        show(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InterruptedWarning)  # the status hangs on it
        warnings.showwarning = cast("Callable[..., None]", seen)
        warnings.formatwarning = lambda message, *_, **__: f"{prog}: {message}\n"
        try:
            yield kinds
        finally:
            warnings.formatwarning = write


def _shape(words: str) -> tuple[int, int, int]:
    """Read a product such as 128x4096x4096."""
    parts = words.lower().split("x")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{words!r} is no product; write m, k and n as 128x4096x4096.")
    m, k, n = map(int, parts)
    return m, k, n


def _check_folder(path: Path) -> None:
    folder = path.resolve().parent
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it.")
    if path.exists() and not path.is_file():  # a device or a pipe, which is written into
        return
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder} to write {path.name} into; make it first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"The folder {folder} may not be written to, so {path.name} cannot be made in it.")


# --- compare -----------------------------------------------------------------------------------------------


def _compare(options: argparse.Namespace) -> None:
    from pulsewarp import bench

    if options.html is not None:
        _check_folder(options.html)
    paths = (options.first, options.second)
    first, second = (bench.load(path) for path in paths)
    for path, runs in zip(paths, (first, second), strict=True):
        if not runs:
            raise ValueError(f"{path} holds no measurements, so there is nothing to compare.")
    alike = options.first.name == options.second.name
    names = tuple(str(path) if alike else path.name for path in paths)
    compared = bench.compare(first, second, names=(names[0], names[1]))
    print(json.dumps(compared.to_dict(), indent=1, allow_nan=False) if options.json else compared)
    if options.html is not None:
        written = write_text_atomically(options.html, _comparison_page(compared))
        print(f"wrote {written}", file=sys.stderr if options.json else sys.stdout)


def _comparison_page(compared: Any) -> str:
    """Return figure and table as one HTML page that needs no network."""
    from pulsewarp import figures

    figure = figures.ratios(compared).to_html(full_html=False, include_plotlyjs=True)
    first, second = (html.escape(name) for name in compared.names)
    return _COMPARISON.format(
        first=first,
        second=second,
        figure=f'<div class="{figures.ON_PAPER}">{figure}</div>',
        table=html.escape(str(compared)),
        figure_style=figures.PAGE_STYLE,
    )


_COMPARISON = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{second} against {first}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; background: #ffffff; color: #1d2733; }}
@media (prefers-color-scheme: dark) {{ :root {{ background: #14191f; color: #e6ebf0; }} }}
body {{ margin: 0 auto; max-width: 60rem; padding: 0 0.5rem; }}
{figure_style}</style>
</head>
<body>
<main>
{figure}
<pre tabindex="0" style="overflow-x: auto; padding: 1rem; font-size: 13px">{table}</pre>
</main>
</body>
</html>
"""


# --- advise ------------------------------------------------------------------------------------------------


def _advise(options: argparse.Namespace) -> None:
    from pulsewarp.cli import advising

    advising.run(options, _check_folder)


# --- export ------------------------------------------------------------------------------------------------

# Option, scene it belongs to, what it means.
_SCENE_OPTIONS = (
    ("rows", "systolic", "rows of the array (4)"),
    ("cols", "systolic", "columns of the array (4)"),
    ("dataflow", "systolic", "ws, os or is: which operand stays (ws)"),
    ("schedulers", "warp", "warp schedulers of the SM (4)"),
    ("policy", "warp", "lrr, gto, gty or oldest (lrr)"),
    ("max-outstanding", "warp", "most loads in flight, of all warps together (no limit)"),
)
_SIZES = {"systolic": (4, 4, 4), "warp": (16, 4, 16)}


def _export(options: argparse.Namespace) -> None:
    from pulsewarp.cli.notebook_page import notebook_page

    scene = options.what if options.what in _SIZES else None
    _refuse_foreign_options(options, scene)
    target = options.output or Path(
        f"{scene}.html" if scene else Path(options.what).with_suffix(".html").name
    )
    _check_folder(target)
    if scene is None and Path(options.what).suffix != ".ipynb":
        from pulsewarp._checks import nearest

        raise ValueError(
            f"{options.what!r} is neither a notebook (.ipynb) nor a scene; scenes are {', '.join(_SIZES)}."
            f"{nearest(options.what, _SIZES)}"
        )
    page = (
        _scene_page(scene, options) if scene else notebook_page(options.what, timeout_seconds=options.timeout)
    )
    written = write_text_atomically(target, page)
    print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")


def _refuse_foreign_options(options: argparse.Namespace, scene: str | None) -> None:
    for option, home, _ in _SCENE_OPTIONS:
        if getattr(options, option.replace("-", "_")) is not None and home != scene:
            raise ValueError(f"--{option} belongs to the {home} scene, not to {options.what}; leave it out.")
    for option in ("m", "k", "n", "seed"):
        if getattr(options, option) is not None and scene is None:
            raise ValueError(f"--{option} belongs to a scene, not to a notebook; leave it out.")


def _scene_page(scene: str, options: argparse.Namespace) -> str:
    import numpy as np

    from pulsewarp import widgets
    from pulsewarp._checks import whole_number

    sizes = {
        name: whole_number(name, default if given is None else given)
        for name, default, given in zip(
            ("m", "k", "n"), _SIZES[scene], (options.m, options.k, options.n), strict=True
        )
    }
    chance = np.random.default_rng(0 if options.seed is None else whole_number("seed", options.seed, least=0))
    # Small whole numbers: a reader can check a sum by heart.
    a = chance.integers(-4, 5, (sizes["m"], sizes["k"]), dtype=np.int32)
    b = chance.integers(-4, 5, (sizes["k"], sizes["n"]), dtype=np.int32)
    given = {
        name: value
        for option, home, _ in _SCENE_OPTIONS
        if home == scene and (value := getattr(options, name := option.replace("-", "_"))) is not None
    }
    if scene == "systolic":
        from pulsewarp import systolic

        trace = systolic.simulate(a, b, **{"rows": 4, "cols": 4, "dataflow": "ws", **given})
        return str(widgets.SystolicPlayer(trace, title=options.title).to_html())
    from pulsewarp import simt

    return str(widgets.WarpPlayer(simt.matmul_kernel(a, b).simulate(**given), title=options.title).to_html())


# --- the parser --------------------------------------------------------------------------------------------


def _build_parser() -> _Parser:
    parser = _Parser(
        prog="pulsewarp",
        description="How a TPU and a GPU really differ: see what is here, measure, decide, export scenes.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pulsewarp {pulsewarp.__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    _add_doctor(commands)
    _add_bench(commands)
    _add_compare(commands)
    _add_advise(commands)
    _add_export(commands)
    return parser


def _add(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], about: str, example: str
) -> _Parser:
    parser: _Parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_doctor(commands: Any) -> None:
    parser = _add(
        commands,
        "doctor",
        _doctor,
        "say which device and which versions are here",
        "pulsewarp doctor --measure",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure this device's own ceilings first: products by dtype and memory bandwidth, some seconds",
    )


def _add_bench(commands: Any) -> None:
    parser = _add(
        commands,
        "bench",
        _bench,
        "time matrix products on the first device that JAX lists",
        "pulsewarp bench --sweep thin --dtype float32 bfloat16 --out runs.json",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--size", type=int, nargs="+", metavar="N", help="sides of square products")
    what.add_argument(
        "--shape", type=_shape, nargs="+", metavar="MxKxN", help="products, such as 1x4096x4096"
    )
    what.add_argument(
        "--sweep",
        metavar="NAME",
        help="square, thin, staircase, dtypes, or a model's products, such as llama-3.1-8b (square)",
    )
    parser.add_argument("--dtype", nargs="+", help="float32, bfloat16, float16, int8 and others (float32)")
    parser.add_argument("--precision", nargs="+", help="default, high or highest (JAX's own setting)")
    parser.add_argument("--clock", default="device", help="device or call: which time is taken (device)")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="repeats to keep (as many as a second allows)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="begin no product after this time (60)",
    )
    parser.add_argument("--memory", type=int, metavar="MIB", help="leave out products that take more")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the measurements as JSON, anew after each"
    )


def _add_compare(commands: Any) -> None:
    parser = _add(
        commands,
        "compare",
        _compare,
        "hold one file of measurements against another",
        "pulsewarp compare before.json after.json --html ratios.html",
    )
    parser.add_argument("first", type=Path, metavar="a.json", help="what is held against")
    parser.add_argument("second", type=Path, metavar="b.json", help="what is compared with it")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write figure and table as a page that needs no network"
    )


def _add_advise(commands: Any) -> None:
    from pulsewarp.cli import advising

    parser = _add(
        commands,
        "advise",
        _advise,
        "say which chip a workload belongs on, why, and what would change that",
        "pulsewarp advise workload.yaml --html report.html",
    )
    advising.add_options(parser)


def _add_export(commands: Any) -> None:
    parser = _add(
        commands,
        "export",
        _export,
        "write a notebook or a scene as one HTML file that needs no network",
        "pulsewarp export systolic --m 4 --k 4 --n 4 --dataflow ws -o scene.html",
    )
    parser.add_argument(
        "what", metavar="notebook.ipynb|systolic|warp", help="a notebook, or the name of a scene"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write (NAME.html here)")
    parser.add_argument(
        "--timeout", type=int, default=600, metavar="SECONDS", help="longest time for one cell (600)"
    )
    scenes = parser.add_argument_group("scenes")
    for size in ("m", "k", "n"):
        scenes.add_argument(f"--{size}", type=int, metavar="N", help=f"{size} of the m x k by k x n product")
    scenes.add_argument("--seed", type=int, metavar="N", help="of the random whole operands (0)")
    scenes.add_argument("--title", help="another title than the scene's own")
    for option, home, about in _SCENE_OPTIONS:
        word = option in ("dataflow", "policy")
        scenes.add_argument(
            f"--{option}",
            type=str if word else int,
            metavar="WORD" if word else "N",
            help=f"{home}: {about}",
        )
