"""Sweeps: equal results with any number of workers, and checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbandits.errors import InvalidValue, NotAvailable, NotEnoughClients
from dpbandits.simulation import RunTrace, Setting, sweep

SETTINGS = [Setting.of(trust=trust, actions=40, dimension=3, horizon=500) for trust in ("none", "central")]


def _collect(**options: object) -> dict[tuple[str, int], RunTrace]:
    found = sweep(SETTINGS, range(4), **options)  # type: ignore[arg-type]
    return {(setting.privacy.trust, run.seed): run for setting, run in found}


def test_the_number_of_workers_changes_nothing() -> None:
    alone, together = _collect(workers=1), _collect(workers=2)
    assert len(alone) == 8
    assert alone == together


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    started = sweep(SETTINGS, range(4), checkpoint=checkpoint)
    first = [next(started) for _ in range(3)]
    started.close()
    with checkpoint.open("ab") as file:
        file.write(b'{"setting": "cut off in the mid')
    finished = _collect(checkpoint=checkpoint)
    assert finished == _collect()
    assert all(finished[setting.privacy.trust, run.seed] == run for setting, run in first)
    assert len(checkpoint.read_bytes().splitlines()) == 8
    assert all(
        run.phases[0].elapsed == finished[s.privacy.trust, run.seed].phases[0].elapsed for s, run in first
    )


def test_a_checkpoint_of_other_settings_is_kept_and_not_used(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    other = [Setting.of(actions=40, dimension=3, horizon=400)]
    list(sweep(other, range(2), checkpoint=checkpoint))
    assert _collect(checkpoint=checkpoint) == _collect()
    assert len(checkpoint.read_bytes().splitlines()) == 10


@pytest.mark.parametrize("letter", ["Dear all\n", "Dear all", "{}"])
def test_a_file_that_is_no_checkpoint_is_not_touched(letter: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "letter.txt"
    checkpoint.write_text(letter)
    with pytest.raises(InvalidValue, match="letter.txt"):
        _collect(checkpoint=checkpoint)
    assert checkpoint.read_text() == letter


@pytest.mark.parametrize("cut", [b"", b'{"set', b'{"setting":"ab'])
def test_a_checkpoint_may_be_cut_off_in_its_first_line(cut: bytes, tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    checkpoint.write_bytes(cut)
    [(_, run)] = sweep(SETTINGS[:1], [0], checkpoint=checkpoint)
    assert [run] == [again for _, again in sweep(SETTINGS[:1], [0], checkpoint=checkpoint)]
    assert len(checkpoint.read_bytes().splitlines()) == 1


def test_a_sweep_without_seeds_has_no_runs() -> None:
    assert list(sweep(SETTINGS, [])) == []


def test_what_cannot_run_is_refused_before_anything_runs(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    bad = Setting.of(alpha=0.9)
    with pytest.raises(NotEnoughClients):
        list(sweep([SETTINGS[0], bad], range(2), checkpoint=checkpoint))
    with pytest.raises(NotAvailable):
        Setting.of(trust="shuffle", preset="paper", delta=0)
    assert not checkpoint.exists()


def test_an_unreadable_line_is_run_again(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    whole = _collect(checkpoint=checkpoint)
    lines = checkpoint.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:60] + b"\x00" + lines[2][61:]
    lines[5] = lines[5].replace(b'"seed"', b'"sand"')
    checkpoint.write_bytes(b"".join(lines))
    assert _collect(checkpoint=checkpoint) == whole
    assert len(checkpoint.read_bytes().splitlines()) == 10
