"""The loader of learning-to-rank data, on made-up files and on the sample."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.world import load
from dpbandits.world._ranking import SAMPLE, ranking

from .files import ranking_text, write


def test_a_known_relation_is_found(tmp_path: Path) -> None:
    data = ranking(write(tmp_path / "r.txt", ranking_text()), dimension=9)
    grades = [float(line.split()[0]) / 4 for line in ranking_text().splitlines()]
    predicted = data.catalogue @ data.theta
    assert np.corrcoef(predicted, grades)[0, 1] > 0.8
    assert data.parameters.shape == (12, 9)
    np.testing.assert_allclose(data.parameters.mean(axis=0), data.theta, atol=1e-12)
    assert np.linalg.norm(data.theta) <= 1 + 1e-12
    assert 0.02 < data.noise < 0.25
    # Slopes differ between these queries, so users differ, mostly along one direction.
    spectrum = np.linalg.eigvalsh(data.covariance)
    assert spectrum[0] > -1e-12
    assert spectrum[-1] > 2 * spectrum[-2]


def test_similar_queries_have_less_heterogeneity(tmp_path: Path) -> None:
    shuffled = ranking_text().splitlines()
    rng = np.random.default_rng(0)
    heads = [line.split(" ", 2) for line in shuffled]
    queries = rng.permutation([head[1] for head in heads])
    mixed = "\n".join(f"{head[0]} {query} {head[2]}" for head, query in zip(heads, queries, strict=True))
    real = ranking(write(tmp_path / "r.txt", ranking_text()), dimension=9)
    equal = ranking(write(tmp_path / "m.txt", mixed), dimension=9)
    for users in ("fitted", "resampled"):
        assert equal.heterogeneity(users) < 0.5 * real.heterogeneity(users)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:2\n0 qid:1 1:3\n", "with 1 query, expected at least 2: queries are the users"),
        ("0 qid:1 1:2\n0 qid:2 1:3\n", "relevance 0 everywhere"),
        ("1 qid:1 1:2\n0 qid:2 1:3\n", "no query with more documents than dimensions"),
    ],
)
def test_files_without_users_or_relevance_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        ranking(write(tmp_path / "r.txt", text), dimension=2)


def test_the_sample_is_the_file_that_its_attribution_names() -> None:
    content = gzip.decompress(SAMPLE.read_bytes())
    notice = SAMPLE.with_name("ATTRIBUTION.md").read_text(encoding="utf-8")
    assert hashlib.sha256(content).hexdigest() in notice
    assert "Creative Commons Attribution 4.0" in notice
    assert "Attribution 4.0" in SAMPLE.with_name("LICENSE.CC-BY-4.0.txt").read_text(encoding="utf-8")


def test_the_sample_loads() -> None:
    data = load("mslr-sample", 10)
    assert data.parameters.shape == (43, 10)
    assert len(data.catalogue) == len(data.labels) == 4_999  # one document occurs twice
    assert np.linalg.norm(data.catalogue, axis=1).max() <= 1 + 1e-12
    assert data is load("mslr-sample", 10)
