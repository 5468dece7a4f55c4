"""The report of the experiments: one well-formed page, escaped, with every number in a file."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from dpbandits.experiments import EXPERIMENTS, Item, Results, Scale, data_files, examined, report, tasks_of
from dpbandits.experiments._report import shown

from .helpers import EXPERIMENT, Page


@pytest.fixture(scope="module")
def item() -> Item:
    scale = Scale(runs=3, quick=True)
    found = [(job, job.run(seed)) for job, seed in tasks_of([EXPERIMENT], scale)]
    return examined(EXPERIMENT, Results(found), scale)


def test_the_report_is_well_formed_and_needs_nothing_else(item: Item) -> None:
    text = report([item], command="dpbandits <x> & y", version="0")
    page = Page(text)
    inside = [reference for reference in page.references if reference.startswith("#")]
    pictures = [
        reference for reference in page.references if reference.startswith("data:image/svg+xml;base64,")
    ]
    assert len(inside) + len(pictures) == len(page.references)
    assert len(pictures) == 1
    assert {reference[1:] for reference in inside} <= set(page.identifiers)
    assert len(page.identifiers) == len(set(page.identifiers))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)


def test_what_experiments_say_is_escaped(item: Item) -> None:
    page = Page(report([item], command="dpbandits <x> & y", version="0"))
    words = "".join(page.words)
    for said in ("Small <experiment>", "<b>yes</b>", '1 < 2 & "so on"', "dpbandits <x> & y", "because"):
        assert said in words
    assert "`" not in words


def test_the_summary_says_what_agrees_and_the_section_why_not(item: Item) -> None:
    text = report([item], command="x", version="0")
    summary = text[text.index('id="summary"') : text.index('id="small"')]
    assert "agrees in part" in summary
    assert "1 agrees, 1 not judged" in summary
    assert ">differs<" in summary
    assert "Why:" in text
    assert "quick: not judged. so" in text


def test_every_number_is_in_the_files(item: Item) -> None:
    files = data_files(item)
    assert set(files) == {"small-regret.csv", "small-curves.csv", "small-runs.csv", "small.json"}
    document = json.loads(files["small.json"])
    runs = list(csv.DictReader(io.StringIO(files["small-runs.csv"].decode())))
    assert [(row["label"], int(row["seed"])) for row in runs] == [
        (label, seed) for label in ("DPE", "LinUCB") for seed in range(3)
    ]
    assert [run["regret"] for run in document["runs"]] == [float(row["regret"]) for row in runs]
    table = list(csv.reader(io.StringIO(files["small-regret.csv"].decode())))
    assert float(table[1][1]) == document["tables"][0]["rows"][0][1]
    assert float(table[1][1]) == pytest.approx(sum(float(row["regret"]) for row in runs[:3]) / 3)
    assert len(files["small-curves.csv"].decode().splitlines()) == 3
    assert document["checks"][1]["why"] == "`because`"


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "–"), (12345, "12,345"), (12345.6, "12,346"), (0.12345, "0.1235"), (3, "3")]
)
def test_numbers_for_people(cell: float | None, text: str) -> None:
    assert shown(cell) == text


def test_names_are_unique_and_statements_are_there() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(names) == len(set(names))
    assert {"figure-2a", "figure-2b", "figure-2c", "figure-3", "table-1", "table-2", "table-3"} <= set(names)
    assert all(experiment.statement and experiment.choices for experiment in EXPERIMENTS)
