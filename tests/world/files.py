"""Small files in the formats of the loaders, made by the tests themselves."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

SPLITS = [(a, b, 17 - a - b) for a in range(2, 15, 2) for b in range(1, 16 - a, 2)]


def write(path: Path, text: str) -> Path:
    """Write plain text, or gzip if the name ends in .gz."""
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def ranking_text(queries: int = 12, documents: int = 60, features: int = 8, seed: int = 0) -> str:
    """Relevance 0 to 4 that increases with the first two features, more strongly for some queries."""
    rng, lines = np.random.default_rng(seed), []
    for query in range(queries):
        slope = 1 + 0.5 * rng.standard_normal()
        for row in rng.standard_normal((documents, features)):
            grade = np.clip(round(2 + slope * row[0] + 0.5 * row[1] + 0.3 * rng.standard_normal()), 0, 4)
            cells = " ".join(f"{i + 1}:{value:.5f}" for i, value in enumerate(row))
            lines.append(f"{int(grade)} qid:q{query} {cells} # a comment: 1:2")
    return "\n".join(lines) + "\n"


def cellular_text(phones: int = 6, repeats: int = 2, seed: int = 0) -> str:
    """Rates that increase with the broadband share for phones of slice 0; schedulers differ slightly."""
    rng = np.random.default_rng(seed)
    lines = ["sched,tr,rbg0,rbg1,rbg2,exp,ue,slice_id,n_windows,dl_mbps,dl_cqi"]
    for phone in range(phones):
        for scheduler in range(3):
            for number, (first, second, third) in enumerate(SPLITS):
                for repeat in range(repeats):
                    rate = [first / 4, 0.06, 0.12][phone % 3] * (1 - 0.02 * scheduler)
                    rate *= 1 + 0.01 * rng.standard_normal()
                    place = f"{scheduler},{number},{first},{second},{third},{repeat}"
                    lines.append(f"{place},{phone},{phone % 3},900,{rate:.6f},")
    return "\n".join(lines) + "\n"
