"""`dpbandits design`: its JSON, its table, and errors in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpbandits.cli import main
from dpbandits.design import certify


@pytest.fixture
def rows() -> np.ndarray:
    return 100 * np.random.default_rng(0).normal(size=(300, 4))  # far outside the unit ball


def write(rows: np.ndarray, path: Path) -> str:
    if path.suffix == ".csv":
        np.savetxt(path, rows, delimiter=",", fmt="%.17g")
    elif path.suffix == ".npy":
        np.save(path, rows)
    else:
        np.savez(path, actions=rows)
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".npy"])
def test_the_json_is_the_design(rows, suffix, tmp_path, capsys) -> None:
    path = write(rows, tmp_path / f"rows{suffix}")
    assert main(["design", path, "--tolerance", "1.2", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    fresh = certify(rows, document["support"], document["weights"], tolerance=1.2)
    assert fresh.holds
    assert document["rank"] == 4
    assert (document["rows"], document["columns"]) == (300, 4)
    assert document["certificate"]["holds"] is True
    assert document["certificate"]["g"] == pytest.approx(fresh.g)


def test_the_table_shows_rows_weights_and_certificate(rows, tmp_path, capsys) -> None:
    target = tmp_path / "design.json"
    assert main(["design", write(rows, tmp_path / "rows.csv"), "--json", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "300 rows of 4 numbers, rank 4" in shown
    assert "certified: g = " in shown
    document = json.loads(target.read_text())
    assert all(str(row) in shown for row in document["support"][:5])


def test_max_support(rows, tmp_path, capsys) -> None:
    path = write(rows, tmp_path / "rows.csv")
    assert main(["design", path, "--max-support", "6", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["support"]) <= 6


def test_many_rows_that_are_mapped(tmp_path, capsys) -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 5))
    path = write(rows, tmp_path / "rows.npy")
    for _ in range(2):
        assert main(["design", path, "--json", "-"]) == 0
    first, second = capsys.readouterr().out.split("}\n{")
    assert first.count("support") == second.count("support")
    assert main(["design", path]) == 0
    assert "20,000 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["nowhere.txt"], ".csv, .npz or .npy"),
        (["{rows}", "--tolerance", "1"], "tolerance"),
        (["{rows}", "--max-support", "0"], "max_support"),
        (["{rows}", "--max-support", "3"], "rank 4"),
        (["{rows}", "--seed", "-1"], "seed"),
        (["{rows}", "--json", "/no/such/folder/x.json"], "json"),
        (["{nan}"], "actions[7, 1]"),
        (["{words}"], "line 2"),
        (["{broken}"], "NPY"),
        (["{cube}"], "shape"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(arguments, named, rows, tmp_path, capsys) -> None:
    broken = rows.copy()
    broken[7, 1] = np.nan
    (tmp_path / "words.csv").write_text("1,2\n3,x\n")
    (tmp_path / "broken.npy").write_bytes(b"not numpy")
    files = {
        "rows": write(rows, tmp_path / "rows.csv"),
        "nan": write(broken, tmp_path / "nan.npy"),
        "words": str(tmp_path / "words.csv"),
        "broken": str(tmp_path / "broken.npy"),
        "cube": write(np.zeros((2, 2, 2)), tmp_path / "cube.npy"),
    }
    assert main(["design", *[argument.format(**files) for argument in arguments]]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err
