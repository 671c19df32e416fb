"""Join a scene file and the kit files it imports into one ES module, kept as text.

A module loaded from text cannot import its neighbours, and the project commits no build output, so the
join happens when a player's class is made. Each file becomes one function scope that returns its
exports; what the last file exports as default is the module's default. The files stay plain ES modules
that a type checker reads as they are, as long as they keep to three forms::

    import { a, b } from "./kit/name.js";      // named imports, relative, at the start of a line
    export function name(...)                  // also: export async function, export const, export class
    export default expression;                 // in scene files only
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.{1,2}/[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


@cache
def join(scene: str) -> str:
    """Return one ES module made of the scene file and every kit file it needs, each once.

    Parameters
    ----------
    scene : str
        File name of the scene beside this file, such as ``"systolic.js"``.

    Returns
    -------
    str
        Text of the module; its default export is the scene's, and it also exports ``mountPage``.

    Raises
    ------
    ValueError
        When a file uses a form of import or export that the joiner does not know, or files import each
        other in a circle.

    Examples
    --------
    >>> text = join("systolic.js")
    >>> sum(line.startswith("export default") for line in text.splitlines())
    1
    """
    order: list[Path] = []
    for file in (scene, "kit/page.js"):
        _collect(HERE / file, order, ())
    parts = [_scope(path) for path in order]
    return (
        "\n".join(parts)
        + f"\nexport default {default_name(scene)};\n"
        + f"export const {{ mountPage }} = {_name(HERE / 'kit/page.js')};\n"
    )


@cache
def style(scene: str) -> str:
    """Return the kit's style sheet, then those beside the files a scene imports, then the scene's own."""
    order: list[Path] = []
    _collect(HERE / scene, order, ())
    sheets = [HERE / "kit" / "kit.css", *(path.with_suffix(".css") for path in order)]
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.exists())


def default_name(scene: str) -> str:
    """Return the expression that names the scene's default export inside the joined module."""
    return f"{_name(HERE / scene)}.default"


def _collect(path: Path, order: list[Path], above: tuple[Path, ...]) -> None:
    """Append the files that `path` imports, then `path`, unless they are there already."""
    if path in above:
        raise ValueError(f"{path.name} imports itself through {' -> '.join(p.name for p in above)}.")
    if path in order:
        return
    for _, target in _IMPORT.findall(path.read_text(encoding="utf-8")):
        _collect((path.parent / target).resolve(), order, (*above, path))
    order.append(path)


def _scope(path: Path) -> str:
    """Return the file as one constant that holds its exports."""
    text = path.read_text(encoding="utf-8")
    names = [name for _, name in _EXPORT.findall(text)]
    body = _IMPORT.sub(
        lambda found: f"const {{{found[1]}}} = {_name((path.parent / found[2]).resolve())};\n", text
    )
    body = _EXPORT.sub(r"\1 \2", body)
    if _DEFAULT.search(body):
        body = _DEFAULT.sub("const exportedDefault = ", body)
        names.append("default: exportedDefault")
    if left := _LEFT_OVER.search(body):
        raise ValueError(f"{path.name} has {left[0]!r}; write a named relative import or a named export.")
    return f"const {_name(path)} = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();"


def _name(path: Path) -> str:
    """Return the constant that stands for a file: ``kit/clock.js`` is ``$kit_clock``."""
    return "$" + re.sub(r"\W", "_", str(path.resolve().relative_to(HERE.resolve()).with_suffix("")))
