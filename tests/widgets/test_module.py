"""The joiner makes one module of plain ES modules, and refuses what it would get wrong."""

import re

import pytest

from pulsewarp.widgets import _module


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(_module, "HERE", tmp_path)
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "page.js").write_text("export function mountPage() {}\n")
    _module.join.cache_clear()
    _module.style.cache_clear()
    yield tmp_path
    _module.join.cache_clear()
    _module.style.cache_clear()


def test_a_joined_scene_has_no_import_and_one_default():
    text = _module.join("systolic.js")
    assert not re.search(r"^\s*import\b", text, re.MULTILINE)
    assert len(re.findall(r"^export default ", text, re.MULTILINE)) == 1
    assert text.count("const $kit_clock = ") == 1


def test_files_come_after_what_they_import(here):
    write(
        here,
        scene='import { b } from "./b.js";\nexport default { render: b };\n',
        b='import { a } from "./a.js";\nexport function b() { return a; }\n',
        a="export const a = 1;\n",
    )
    text = _module.join("scene.js")
    assert text.index("const $a =") < text.index("const $b =") < text.index("const $scene =")


def test_two_files_may_use_one_name(here):
    write(
        here,
        scene='import { b } from "./b.js";\nconst local = 1;\nexport default { local, b };\n',
        b="const local = 2;\nexport const b = local;\n",
    )
    assert "return { b };" in _module.join("scene.js")


def test_a_circle_is_refused(here):
    write(
        here,
        a='import { b } from "./b.js";\nexport default b;\n',
        b='import { a } from "./a.js";\nexport const b = a;\n',
    )
    with pytest.raises(ValueError, match="imports itself"):
        _module.join("a.js")


@pytest.mark.parametrize(
    "line", ['import all from "./a.js";', 'export * from "./a.js";', "export { a };", 'import "x";']
)
def test_a_form_the_joiner_does_not_know_is_refused(here, line):
    write(here, scene=f"{line}\nexport default 1;\n")
    with pytest.raises(ValueError, match=re.escape(line)):
        _module.join("scene.js")


def test_style_is_the_kits_then_that_of_what_is_imported_then_the_scenes(here):
    (here / "kit" / "kit.css").write_text(".pw {}")
    (here / "part.css").write_text(".part {}")
    (here / "other.css").write_text(".other {}")
    (here / "scene.css").write_text(".scene {}")
    write(
        here,
        scene='import { a } from "./part.js";\nexport default a;\n',
        part="export const a = 1;\n",
        other="export const b = 1;\n",
    )
    assert _module.style("scene.js") == ".pw {}\n.part {}\n.scene {}"


def test_no_style_rule_is_unscoped():
    """Every rule names a class of ours, so that a notebook around us keeps its looks."""
    text = re.sub(r"/\*.*?\*/", "", _module.style("systolic.js"), flags=re.DOTALL)
    selectors = [s.strip() for s in re.findall(r"([^{};]+)\{", text) if not s.strip().startswith("@")]
    assert selectors
    for selector in selectors:
        for part in selector.split(","):
            assert re.search(r"\.(pw|sy)\b|\[data-none\]|\[data-theme", part) or ")" in part, selector
