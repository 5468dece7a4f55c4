"""The replay of the RAND experiment prints what docs/real-data.md says, and agrees with the experiment."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "real-data.md").read_text(encoding="utf-8")


@pytest.fixture(name="example")
def _example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "examples")
    yield importlib.import_module("rand_insurance")
    del sys.modules["rand_insurance"]


@pytest.fixture(name="making")
def _making(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "examples" / "data")
    yield importlib.import_module("make_randhie")
    del sys.modules["make_randhie"]


def test_the_output_of_the_command_is_on_the_page(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    (printed,) = re.findall(
        r"python examples/rand_insurance.py\n```\n\nIt prints:\n\n```text\n(.*?)```", PAGE, re.DOTALL
    )
    found = example.main([])
    assert capsys.readouterr().out == printed
    rows = re.findall(r"^\| study.*\| \[(.*?)\] \| (.*?) \[(.*?)\] \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(found) == 3
    for (interval, lead, around), one in zip(rows, found.values(), strict=True):
        stated = [float(text.replace("−", "-")) for text in (*interval.split(","), lead, *around.split(","))]
        over = one.lead_over_current
        assert stated == pytest.approx([*one.interval, over.estimate, over.low, over.high], abs=6e-4)


def test_a_small_study_covers_the_plain_means(example: ModuleType) -> None:
    means = example.plain_means(example.experiment(600))
    found = example.main(["--participants", "400", "--seed", "2"])
    for one in found["no privacy"].options:
        assert one.low < means[one.option][1] < one.high
    assert all(0 < one.participants <= 400 for one in found.values())


def test_a_plan_without_enough_people_is_refused_as_the_page_says(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        example.main(["--least", "200"])
    assert ended.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1].partition("error: ")[2]
    assert f"    {message}\n" in PAGE


def test_the_figure_is_drawn(example: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    example.main(["--participants", "400", "--plot", str(tmp_path / "plans.png")])
    assert (tmp_path / "plans.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plans.png").stat().st_size > 10_000


def test_the_data_is_what_the_page_says(example: ModuleType) -> None:
    data = ROOT / "examples" / "data" / "randhie.csv"
    assert data.stat().st_size < 300_000
    people = example.experiment(0)
    assert len(people) == len({one["person"] for one in people}) == 4902
    assert len({one["plan"] for one in people}) == 6
    assert "4,902 runs" in PAGE
    above = sum(int(one["visits"]) > example.MOST_VISITS for one in people) / len(people)
    assert f"{100 * above:.0f} % of the people exceed it" in PAGE


def test_one_row_of_each_person_is_kept(making: ModuleType, tmp_path: Path) -> None:
    head = "mdvis,lncoins,idp,lpi,fmde,physlm,disea,hlthg,hlthf,hlthp"
    rows = [
        "4,3.258096,0,0,0,0,13.7,1,0,0",  # the first year of the first person
        "9,3.258096,0,5,0,0,13.7,1,0,0",  # another year, with another incentive
        "0,4.61512,1,0,0,0,6.9,1,0,0",
        "2,0,0,0,0,0,13.7,1,0,0",  # the values of the first person, but not in the same run
    ]
    (tmp_path / "original.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    making.main(str(tmp_path / "original.csv"), str(tmp_path / "made.csv"))
    made = (tmp_path / "made.csv").read_text(encoding="utf-8").splitlines()
    assert made == ["person,coinsurance,deductible,visits", "1,25,no,4", "2,100,yes,0", "3,0,no,2"]
