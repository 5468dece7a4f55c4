"""Learning-to-rank data as a bandit problem: documents are actions, relevance is reward, queries are users.

Grades are divided by the largest grade of the file, so a reward is in [0, 1]. Features are transformed by
sign(v)·log(1 + |v|), because counts in such files reach 10⁸, and become actions as in _features.py. The
global reward function θ* is a ridge regression of reward on action over all documents. A query's own θ_q has
the prior N(θ*, τ²I):

    θ_q = θ* + (G_q + (s²/τ²)·I)⁻¹·A_q'(y_q − A_q θ*),   G_q = A_q'A_q

where s² is the residual variance after each query is fitted separately, and τ² matches E‖A_q'(y_q − A_q θ*)‖²
= s²·tr G_q + τ²·tr G_q², summed over queries. Deviations are centred, so that θ* is the mean of the users.
Posterior means vary less than users do, so Σ is their covariance plus the mean posterior covariance s²(G_q +
(s²/τ²)I)⁻¹.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.world._dataset import Dataset
from dpbandits.world._features import whitened
from dpbandits.world._svmlight import Judgements, read_svmlight

SAMPLE = Path(__file__).with_name("mslr_sample") / "msn1.fold1.train.5k.txt.gz"
RIDGE = 10.0
LONGEST = 0.95


def ranking(path: str | Path, *, dimension: int, name: str | None = None) -> Dataset:
    """Read an svmlight ranking file, plain or gzip."""
    judged = read_svmlight(path)
    queries, users = np.unique(judged.queries, return_inverse=True)
    if len(queries) < 2:
        raise InvalidValue("data", f"{path} with 1 query", "at least 2: queries are the users")
    rewards = _rewards(judged, path)
    features = judged.features.copy()
    # The transformation maps 0 to 0, so the features stay sparse.
    features.data = np.sign(features.data) * np.log1p(np.abs(features.data))
    actions = whitened(features, dimension, longest=LONGEST)
    gram = actions.T @ actions + RIDGE * np.eye(dimension)
    theta = np.asarray(np.linalg.solve(gram, actions.T @ rewards), dtype=np.float64)
    left = rewards - actions @ theta
    groups = [(actions[users == user], left[users == user]) for user in range(len(queries))]
    deviations, covariance, noise = _users(groups)
    # The model requires ‖θ*‖ ≤ 1; if θ* is longer, rewards are measured in smaller units.
    scale = 1 / max(1.0, float(np.linalg.norm(theta)))
    # Documents with equal features are the same action; the first of them is kept.
    documents = np.sort(np.unique(actions, axis=0, return_index=True)[1])
    return Dataset(
        name=name or Path(path).name,
        catalogue=actions[documents],
        labels=tuple(f"document {place + 1} of query {judged.queries[place]}" for place in documents),
        theta=scale * theta,
        parameters=scale * (theta + deviations),
        covariance=scale**2 * covariance,
        noise=scale * noise,
        whole_catalogue=False,
    )


def _rewards(judged: Judgements, path: str | Path) -> FloatArray:
    """Return the grades divided by the largest."""
    highest = float(judged.relevance.max())
    if highest == 0:
        raise InvalidValue("data", f"{path} with relevance 0 everywhere", "some relevant documents")
    return judged.relevance / highest


def _users(groups: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray, float]:
    """Return θ_q − θ* per user, Σ, and s, from pairs of A_q and y_q − A_q θ*."""
    grams = [rows.T @ rows for rows, _ in groups]
    sums = [rows.T @ left for rows, left in groups]
    noise = _noise_variance(groups)
    trace = sum(float(np.trace(gram)) for gram in grams)
    squares = sum(float(np.sum(gram**2)) for gram in grams)
    spread = max(0.0, (sum(float(total @ total) for total in sums) - noise * trace) / squares)  # τ²
    identity = np.eye(len(grams[0]))
    if spread == 0:  # queries differ no more than the noise explains
        return np.zeros((len(groups), len(identity))), 0 * identity, float(np.sqrt(noise))
    posteriors = [np.linalg.inv(gram + noise / spread * identity) for gram in grams]
    deviations = np.array([inverse @ total for inverse, total in zip(posteriors, sums, strict=True)])
    deviations -= deviations.mean(axis=0)
    covariance = deviations.T @ deviations / len(groups) + noise * np.mean(posteriors, axis=0)
    return deviations, np.asarray(covariance, dtype=np.float64), float(np.sqrt(noise))


def _noise_variance(groups: list[tuple[FloatArray, FloatArray]]) -> float:
    """Return s²: the residual variance after a separate least-squares fit per query."""
    square, freedom = 0.0, 0
    for rows, left in groups:
        fit, _, rank, _ = np.linalg.lstsq(rows, left, rcond=None)
        square += float(np.sum((left - rows @ fit) ** 2))
        freedom += len(rows) - int(rank)
    if freedom == 0:
        given = "no query with more documents than dimensions"
        raise InvalidValue("data", given, "at least one such query; use a smaller dimension")
    return square / freedom
