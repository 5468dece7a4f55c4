"""The commands of deployed studies, except those that run until they are stopped."""

from __future__ import annotations

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dpbandits.cli import main
from dpbandits.errors import Refused
from dpbandits.service.config import read_study
from dpbandits.service.wire import KeyPair, hashed, new_secret
from dpbandits.storage import Attempt, open_store

from ..service.processes import Site  # noqa: TID252
from .helpers import check_refused


def test_keys_go_into_private_files_and_what_is_public_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "sealing", str(tmp_path / "key.pem")]) == 0
    assert capsys.readouterr().out.strip() == str(KeyPair.load(tmp_path / "key.pem").public)
    assert main(["keys", "token", str(tmp_path / "token")]) == 0
    assert capsys.readouterr().out.strip() == hashed((tmp_path / "token").read_text().strip())
    assert main(["keys", "tls", str(tmp_path / "certificate.pem"), str(tmp_path / "tls.pem")]) == 0
    for name in ("key.pem", "token", "tls.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    capsys.readouterr()
    check_refused(["keys", "token", str(tmp_path / "token")], "no file yet", capsys)


def test_codes_are_kept_as_hashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(6, 10))
    codes = tmp_path / "codes"
    assert main(["keys", "codes", str(site.study_file), str(codes), "--count", "5"]) == 0
    assert "5 codes" in capsys.readouterr().out
    assert len(codes.read_text().split()) == 5
    kept = (tmp_path / "study.sqlite").read_bytes()
    assert not any(code.encode() in kept for code in codes.read_text().split())


def test_codes_expire_and_are_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(6, 10))
    codes, study = tmp_path / "codes", str(site.study_file)
    assert main(["keys", "codes", study, str(codes), "--count", "3", "--days", "2"]) == 0
    lost = tmp_path / "lost"
    lost.write_text("\n".join([codes.read_text().split()[0], new_secret()]))
    capsys.readouterr()
    assert main(["keys", "revoke", study, str(lost)]) == 0
    assert capsys.readouterr().out.startswith("1 of 2 codes revoked")
    first, second, third = (hashed(code) for code in codes.read_text().split())
    store = open_store(f"sqlite:///{tmp_path / 'study.sqlite'}")
    with store.transaction() as transaction:
        for code, days, reason in ((first, 0, "unknown-credential"), (second, 2.1, "code-expired")):
            with pytest.raises(Refused) as refused:
                transaction.enrol(code, hashed("token"), now=time.time() + 86_400 * days)
            assert refused.value.reason == reason
        assert transaction.enrol(third, hashed("token"), now=time.time() + 86_400 * 1.9)
    store.close()


def test_a_key_is_destroyed_only_after_its_last_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(6,))
    store = open_store(f"sqlite:///{tmp_path / 'shuffler.sqlite'}")
    collecting = Attempt(phase=1, number=1, state="collecting", since=0.0, seconds=None)
    with store.transaction() as transaction:
        transaction.add_attempt(collecting)
    check_refused(["keys", "destroy", str(site.shuffler_file)], "an open collection", capsys)
    with store.transaction() as transaction:
        transaction.change_attempt(collecting, replace(collecting, state="released"))
    store.close()
    key = tmp_path / "shuffler.pem"
    same = tmp_path / "the same blocks"
    same.hardlink_to(key)
    before = same.read_bytes()
    assert main(["keys", "destroy", str(site.shuffler_file)]) == 0
    assert not key.exists()
    assert len(same.read_bytes()) == len(before)
    assert before[30:60] not in same.read_bytes()

    file = read_study(site.study_file)
    coordinator = file.coordinator()
    coordinator.begin()
    coordinator.close()
    capsys.readouterr()
    check_refused(["keys", "destroy", str(site.study_file)], "a running study", capsys)
    assert (tmp_path / "reports.pem").exists()


def test_one_unknown_code_does_not_end_the_others_and_a_restart_repeats_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(24,))
    codes, unknown, rewards = tmp_path / "codes", new_secret(), tmp_path / "rewards.csv"
    assert main(["keys", "codes", str(site.study_file), str(codes), "--count", "24"]) == 0
    lines = codes.read_text().split()
    codes.write_text("\n".join([*lines[:6], unknown, *lines[6:]]))
    rewards.write_text("\n".join([",".join(["0.1"] * 12)] * 25))
    capsys.readouterr()
    words = ["client", site.url, "--codes", str(codes), "--rewards", str(rewards), "--accept", "central"]
    words += ["--epsilon", "20", "--delta", "1e-3", "--certificates", str(site.certificate)]
    mixed, memory = tmp_path / "mixed", tmp_path / "memory"
    mixed.write_text("\n".join([*reversed(lines), unknown]))
    words += ["--memory", str(memory)]
    with site.running("coordinator", site.coordinator()), site.running("actuator", site.actuator()):
        site.wait_ready(site.url)
        assert main(words) == 1
        shown = capsys.readouterr()
        assert main([*words[:3], str(mixed), *words[4:]]) == 1
        assert capsys.readouterr().out == shown.out  # each client found its memory in the folder
    assert {path.name for path in memory.iterdir()} == {f"{hashed(code)}.json" for code in [*lines, unknown]}
    assert stat.S_IMODE(memory.stat().st_mode) == 0o700
    assert shown.out == "24 of 25 reports were accepted; 1 failed\n"
    assert shown.err.startswith("dpbandits client: code 7 of 25: ")
    assert shown.err.count("\n") == 1
    assert unknown not in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve"], "exactly one of: a study file, --example, --conformance"),
        (["serve", "x.toml", "--example"], "exactly one of: a study file, --example, --conformance"),
        (["serve", "x.toml", "--trust", "none"], "none without --conformance"),
        (["serve", "x.toml", "--conformance"], "exactly one of: a study file, --example, --conformance"),
        (["serve", "missing.toml"], "an existing TOML file"),
        (["shuffler", "missing.toml"], "an existing TOML file"),
        (["client", "https://127.0.0.1:1", "--codes", "missing", "--rewards", "x.csv"], "an existing file"),
        (["actuator", "https://127.0.0.1:1", "--token-file", "missing"], "an existing file"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused(arguments, message, capsys)
