"""The form for one's own workload: asked by keyboard, answered below, refused at its field, kept nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from live_page import live
from scene_page import resize, settle

from pulsewarp import guide, lesson
from pulsewarp.lesson import own_workloads

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Open = Callable[..., "Page"]


def told(page: Page, words: str) -> None:
    page.wait_for_function("(w) => document.querySelector('.pw-workload').innerText.includes(w)", arg=words)


def page_of(open_html: Open, **settings: Any) -> Page:
    page = open_html(lesson.own_workload().to_html(), **settings)
    page.wait_for_selector(".pw-headline")
    settle(page)
    return page


def test_the_report_is_the_guides_and_nothing_typed_is_kept(open_html: Open) -> None:
    form = lesson.own_workload()
    page = live(open_html, form)
    assert page.locator(".pw-report").inner_text() == ""
    page.get_by_label("Framework", exact=True).select_option("pytorch")
    page.get_by_label("Own kernels").select_option("triton")
    page.get_by_label("How many chips").fill("8")
    page.keyboard.press("Enter")
    told(page, "The report is below.")
    advice = guide.advise(guide.Workload(framework="pytorch", custom_kernels="triton", chips=8))
    assert form.advice is not None and form.advice.verdict == advice.verdict
    headline = page.inner_text(".pw-headline")
    assert advice.summary.startswith(headline)
    shown = page.locator(".pw-reasons > li").all_inner_texts()
    assert len(shown) == len(advice.reasons)
    assert all(reason.text in text for reason, text in zip(advice.reasons, shown, strict=True))
    linked = page.locator(".pw-reasons a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
    assert linked == [
        r.source.address for r in advice.reasons if r.source and r.source.address[:8] == "https://"
    ]
    page.wait_for_function("!model.get('request').kind && !model.get('reply').report")
    assert (form.request, form.reply) == ({}, {})
    page.get_by_label("How many chips").fill("9")
    told(page, "ask again")
    assert page.locator(".pw-report").get_attribute("data-stale") == "true"


def test_a_refusal_opens_its_group_and_stands_at_its_field(open_html: Open) -> None:
    page = live(open_html, lesson.own_workload(own_workloads.EXAMPLES[next(iter(own_workloads.EXAMPLES))]))
    before = page.inner_text(".pw-headline")
    page.get_by_text("The team and its money").click()
    page.get_by_label("Weeks to port the code").fill("many")
    page.get_by_text("The team and its money").click()
    page.get_by_role("button", name="Advise me").click()
    told(page, "port_weeks is 'many'")
    field = page.get_by_label("Weeks to port the code")
    assert field.is_visible() and field.get_attribute("aria-invalid") == "true"
    assert page.evaluate("document.activeElement.id") == field.get_attribute("id")
    assert page.inner_text(".pw-headline") == before and field.input_value() == "many"


def test_without_a_kernel_the_worked_out_reports_can_be_read(open_html: Open) -> None:
    page = page_of(open_html)
    assert "No kernel runs behind this page" in page.inner_text(".pw-form")
    assert page.get_by_role("button", name="Advise me").is_hidden()
    for label, workload in list(own_workloads.EXAMPLES.items())[2:4]:
        page.get_by_label("Workload", exact=True).select_option(label=label)
        assert page.locator(".pw-report").get_attribute("data-verdict") == guide.advise(workload).verdict
        assert page.get_by_label("Framework", exact=True).input_value() == workload.framework
        assert page.get_by_label("Framework", exact=True).is_disabled()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone_and_has_no_serious_finding(
    dark: bool, open_html: Open, serious: Callable[[Page], list[Any]]
) -> None:
    page = page_of(open_html, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert serious(page) == []
    resize(page, 390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tall = page.locator("select, summary").evaluate_all(
        "all => all.filter((e) => e.closest('.pw-form')).map((e) => e.offsetHeight)"
    )
    assert min(tall) >= 44


def test_the_first_screen_is_short(open_html: Open) -> None:
    page = live(open_html, lesson.own_workload())
    assert page.locator(".pw-form").evaluate("(form) => form.offsetHeight") < 560


def test_mutant_a_page_that_shows_another_report_is_found(open_html: Open) -> None:
    html = lesson.own_workload().to_html()
    assert "if (chosen?.report) show(chosen.report);" in html
    page = open_html(html.replace("show(chosen.report);", "show(examples[0].report);"))
    label, workload = list(own_workloads.EXAMPLES.items())[3]
    page.get_by_label("Workload", exact=True).select_option(label=label)
    assert page.locator(".pw-report").get_attribute("data-verdict") != guide.advise(workload).verdict
