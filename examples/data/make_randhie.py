"""Make randhie.csv, one row per person, from the data set `randhie` of statsmodels, one row per person-year.

python make_randhie.py ORIGINAL.csv.gz randhie.csv

The original has the columns mdvis (visits to a doctor in a year), lncoins (ln(1 + coinsurance in per cent)),
idp (1 for a plan with an individual deductible) and values of the person at enrolment: physlm, disea, hlthg,
hlthf, hlthp. It does not number people. Of each run of rows with equal values of the person the first row is
kept. So nobody is kept twice, provided that the rows of a person follow each other. Neighbours in the file
with equal values cannot be told from one person; only the first of them is kept.
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PERSON = ("physlm", "disea", "hlthg", "hlthf", "hlthp")
COLUMNS = ("person", "coinsurance", "deductible", "visits")


def people(rows: Iterable[dict[str, str]]) -> Iterator[tuple[int, int, str, int]]:
    """Yield one tuple of `COLUMNS` per person: the first row of each run of equal values of the person.

    Args:
        rows: The rows of the original, in its order.
    """
    person, last = 0, tuple[str, ...]()
    for row in rows:
        values = tuple(row[name] for name in PERSON)
        if values != last:
            person, last = person + 1, values
            coinsurance = round(math.exp(float(row["lncoins"])) - 1)
            yield person, coinsurance, "yes" if row["idp"] == "1" else "no", int(row["mdvis"])


def main(original: str, made: str) -> None:
    """Read the original, plain or gzip, and write the table."""
    opened = gzip.open if original.endswith(".gz") else open
    with opened(original, "rt", newline="", encoding="utf-8") as source:
        found = list(people(csv.DictReader(source)))
    with Path(made).open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
