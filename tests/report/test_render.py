"""The page: whole, alone, the same again, and usable without eyes or mouse."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from outofcore.domains.registry import DOMAINS
from outofcore.report.render import make_page
from outofcore.settings.sizes import format_bytes
from outofcore.store.reader import open_store
from tests.report.page import Page
from tests.samples import write_json

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.timeout(900)]
MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def page(project: Path) -> Page:
    return Page(make_page(project))


def test_it_refers_to_nothing_outside_of_it(page: Page) -> None:
    for element in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert element.attributes.get(name, "#").startswith(("#", "data:")), element
    style = page.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    assert not page.all("script", "iframe", "object")
    assert len(page.source.encode()) < MOST_BYTES


def test_the_same_folder_gives_the_same_page(project: Path, page: Page) -> None:
    assert make_page(project) == page.source


def test_no_path_of_the_machine_stands_in_it_but_the_stores_own(project: Path, page: Page) -> None:
    mentioned = re.findall(re.escape(str(project)) + r"[^<\s]*", page.source)
    assert {path.removeprefix(str(project)).split("/")[1] for path in mentioned} <= {"data"}


def test_names_are_unique_and_what_is_referred_to_is_there(page: Page) -> None:
    names = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(names) == len(set(names))
    for element in page.elements:
        for name in ("href", "aria-labelledby"):
            target = element.attributes.get(name, "")
            if target.startswith("#") or (name == "aria-labelledby" and target):
                assert target.removeprefix("#") in names, target


def test_headings_are_in_order_and_landmarks_are_there(page: Page) -> None:
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag in ("header", "nav", "main", "footer"):
        assert len(page.all(tag)) == 1
    assert page.all("html")[0].attributes["lang"] == "en"
    assert page.elements[[e.tag for e in page.elements].index("body") + 1].attributes["href"] == "#main"


def test_every_picture_has_words(page: Page) -> None:
    pictures = page.all("img")
    assert len(pictures) > len(DOMAINS)
    assert all(element.attributes["alt"] for element in pictures)
    assert "Top 1 while training: val ends at 0.25, always the most frequent ends at 0.125" in [
        element.attributes["alt"] for element in pictures
    ]


def test_counts_are_those_of_the_stores(project: Path, page: Page) -> None:
    shown = [element.text.strip().split("|")[1:] for element in page.all("tr")]
    found = [element.text for element in page.all("dd")]
    for name in DOMAINS:
        facts = open_store(project / "data" / "stores" / f"{name}.zarr").attributes
        rejected = sum(facts["rejected"].values())
        assert f"{facts['found']:,}{facts['accepted']:,} accepted, {rejected:,} rejected" in found
        for reason, count in facts["rejected"].items():
            assert [reason.replace("_", " "), f"{count:,}"] in shown


def test_what_is_equal_for_all_is_a_line_and_no_chart(page: Page) -> None:
    lines = [element.text for element in page.all("p")]
    assert any(re.fullmatch(r"Length of the trials: \d+ \(bins\) for all \d+ trials\.", line) for line in lines)
    assert not any(each.attributes["alt"].startswith("Length of the trials") for each in page.all("img"))


def test_it_begins_with_what_was_learned_and_the_sizes_of_raw_files_and_stores(project: Path, page: Page) -> None:
    glimpses = [" ".join(element.text.split()) for element in page.all("article")]
    assert len(glimpses) == len(DOMAINS)
    assert "Top 1: 0.2 (95 %: 0.1 to 0.3); always the most frequent: 0.1" in next(
        each for each in glimpses if "Chess" in each
    )
    for name, each in zip(sorted(DOMAINS), glimpses, strict=True):
        facts = json.loads((project / f"metrics/{name}/convert.json").read_text())
        assert f"{format_bytes(facts['bytes_store'])} on disk; raw files {format_bytes(facts['bytes_raw'])}" in each


def test_results_stand_beside_their_baselines(page: Page) -> None:
    shown = [element.text.strip() for element in page.all("tr")]
    assert "|Top 1|0.25|0.125|0.2|0.1 to 0.3|0.1|always the most frequent" in shown
    assert "|Steps|20|||||" in shown
    assert "16 sequences" in page.source
    assert f"Validation split {'1f' * 8}: compare with experiments whose val_digest is the same." in page.source
    assert f"Test split {'2e' * 8}: compare with experiments whose test_digest is the same." in page.source


def test_what_a_model_made_is_text_and_no_markup(page: Page) -> None:
    assert "1. e4 <e5> & so on" in [element.text.strip() for element in page.all("p")]


def test_a_folder_where_nothing_ran_says_so(tmp_path: Path) -> None:
    assert "Nothing has run yet" in make_page(tmp_path)


def test_what_looks_like_a_mistake_is_said(project: Path, page: Page, tmp_path: Path) -> None:
    assert "Look at this" not in page.source
    shutil.copytree(project, tmp_path / "doubted")
    path = tmp_path / "doubted/metrics/chess/convert.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"doubts": ["9 of 10 records are rejected"]}))
    doubted = Page(make_page(tmp_path / "doubted"))
    assert "Look at this: 9 of 10 records are rejected." in [element.text.strip() for element in doubted.all("p")]


def test_a_store_that_the_last_conversion_did_not_make_is_not_shown(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "streamed"
    shutil.copytree(project, other)
    write_json(other / "metrics" / "chess" / "convert.json", {"files": 3})
    shown = Page(make_page(other)).source
    assert "Trained straight from the raw files" in shown
    assert "chess.zarr" not in shown


def test_a_store_that_was_not_pulled_is_said_to_be_missing(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "cloned", ignore=shutil.ignore_patterns("chess.zarr"))
    shown = Page(make_page(tmp_path / "cloned")).source
    assert "The store that these figures are of is not in this folder" in shown
    assert "Trained straight from the raw files" not in shown
