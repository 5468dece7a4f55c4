"""Study files and shuffler files: what they set, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy import SecureNoise
from dpbandits.service.config import read_shuffler, read_study
from dpbandits.service.shared import RoleTokens, ShufflerAddress
from dpbandits.service.wire import hashed

from .processes import Site


def _site(path: Path, mode: str | None = "trusted") -> Site:
    trust = "central" if mode is None else "shuffle"
    return Site(directory=path, trust=trust, mode=mode, cohorts=(6, 10))


def test_a_study_file_sets_everything_but_the_noise_source(tmp_path: Path) -> None:
    site = _site(tmp_path)
    file = read_study(site.study_file)
    assert file.context.study.horizon == site.horizon
    assert file.context.study.actions == site.actions
    assert file.context.study.schedule.cohorts == (6, 10)
    assert isinstance(file.context.noise, SecureNoise)
    assert file.listening.url == site.url
    assert file.storage == f"sqlite:///{tmp_path.resolve()}/study.sqlite"
    shuffler = read_shuffler(site.shuffler_file)
    assert shuffler.context.mode == "trusted"
    assert shuffler.listening.url == site.shuffler_url


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon = 20000", "horizon = -1", "study.horizon: got -1, expected a whole number"),
        ("horizon = 20000", "horizont = 20000", "study.horizont: got horizont, expected one of actions"),
        (
            "horizon = 20000",
            "horizon = 20000\nreward_range = [5, 5]",
            "study.reward_range: got (5, 5), expected a pair of finite numbers (low, high) with low < high",
        ),
        ("epsilon = 20.0", "epsilon = 0", "privacy.epsilon: got 0, expected a finite number > 0"),
        ('trust = "shuffle"', 'trust = "me"', "privacy.trust: got 'me', expected one of none"),
        ("cohorts = [6, 10]", "cohorts = [0]", "schedule.cohorts: got 0, expected"),
        ('mode = "trusted"', 'mode = "maybe"', "shuffler.mode: got 'maybe', expected one of trusted, split"),
        ("report_seconds = 60.0", "report_seconds = 0", "timing.report_seconds: got 0, expected"),
        ('actions = "actions.csv"', 'actions = "none.csv"', "expected an existing .csv or .npz file"),
        ('reports = "reports.pem"', 'reports = "tls.pem"', "expected a PEM file with an X25519 private key"),
        ("[storage]", "[storages]", "storages: got storages, expected one of study"),
        ("[timing]", "[timing", "got invalid TOML, expected valid TOML"),
        ("cohorts = [6, 10]", "cohorts = 6", "schedule.cohorts: got 6, expected a list of whole numbers"),
        (
            "horizon = 20000",
            'horizon = 9\nassignment = "one_per_round"',
            "study.assignment: got assignment, expected one",
        ),
        ("cohorts = [6, 10]", "participants = 16", "only maximum_cohort as a further key"),
        ('token_file = "coordinator.token"', 'token_file = "no"', "shuffler.token_file: got"),
        (
            '[shuffler]\n            url = "https',
            '[shuffler]\n            url = "127',
            "shuffler.url: got 127",
        ),
        ('operator = "', 'operator = "x', "tokens.operator: got another text, expected 64 hexadecimal"),
        ("delta = 1e-3", 'delta = 1e-3\nnoise = "simulated"', "privacy.noise: got 'simulated'"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    site = _site(tmp_path)
    text = site.study_file.read_text()
    assert old in text
    site.study_file.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidValue) as caught:
        read_study(site.study_file)
    told = str(caught.value)
    assert message in told
    changed = [
        n for n, line in enumerate(site.study_file.read_text().splitlines(), 1) if new.split("\n")[-1] in line
    ]
    assert f"line {changed[0]}" in told


def test_a_token_has_one_role(tmp_path: Path) -> None:
    one, other = "1" * 64, "2" * 64
    assert RoleTokens(hashes={"operator": [one, one], "actuator": other}).by_hash()[one] == "operator"
    for hashes in ({"operator": one, "reader": one}, {"operator": [other, one], "reader": [one]}):
        with pytest.raises(InvalidValue, match="reader: got the token of operator, expected a token of its"):
            RoleTokens(hashes=hashes)
    site = _site(tmp_path)
    for path, role, read in (
        (site.study_file, "actuator", read_study),
        (site.shuffler_file, "coordinator", read_shuffler),
    ):
        text = path.read_text().replace(hashed(site.tokens[role]), hashed(site.tokens["operator"]))
        path.write_text(text)
        (line,) = (n for n, own in enumerate(text.splitlines(), 1) if own.strip().startswith(f"{role} = "))
        with pytest.raises(InvalidValue, match=rf"line {line}, tokens.{role}: got the token of operator"):
            read(path)


def test_an_error_does_not_repeat_what_was_given_as_a_key() -> None:
    with pytest.raises(InvalidValue, match="key: got another text, expected 64 hexadecimal digits"):
        ShufflerAddress(url="https://shuffler.test", key="perhaps a secret")


def test_required_keys_must_exist(tmp_path: Path) -> None:
    site = _site(tmp_path)
    text = site.study_file.read_text()
    site.study_file.write_text(text.replace('url = "sqlite:///study.sqlite"', ""))
    with pytest.raises(InvalidValue, match="storage.url: got None, expected a string"):
        read_study(site.study_file)
    site.study_file.write_text(text.replace("horizon = 20000", ""))
    with pytest.raises(InvalidValue, match="study.horizon: got nothing, expected a value"):
        read_study(site.study_file)
    site.study_file.write_text(text.replace('key = "tls.pem"', 'key = "study.toml"'))
    with pytest.raises(InvalidValue, match="a PEM certificate that fits the key"):
        read_study(site.study_file)
    with pytest.raises(InvalidValue, match="an existing TOML file"):
        read_study(tmp_path / "missing.toml")
    site.shuffler_file.write_text(
        site.shuffler_file.read_text().replace("[server]", '[server]\nhost = "0.0.0.0"')
    )
    assert read_shuffler(site.shuffler_file).listening.host == "0.0.0.0"
    bare = (
        site.shuffler_file.read_text()
        .replace('certificate = "certificate.pem"', "")
        .replace('key = "tls.pem"', "")
    )
    site.shuffler_file.write_text(bare)
    with pytest.raises(InvalidValue, match="a certificate and a key"):
        read_shuffler(site.shuffler_file)


def test_a_central_study_has_no_shuffler(tmp_path: Path) -> None:
    site = _site(tmp_path, None)
    assert read_study(site.study_file).link is None
    site.study_file.write_text(site.study_file.read_text().replace('"central"', '"shuffle"'))
    with pytest.raises(InvalidValue, match="one in the shuffle model"):
        read_study(site.study_file)


def test_in_mode_verified_the_servers_add_the_noise_unless_the_file_names_another(tmp_path: Path) -> None:
    for mode, noise, expected in (
        ("verified", None, "server-gaussian"),
        ("verified", "skellam", "skellam"),
        ("split", None, None),
    ):
        directory = tmp_path / f"{mode}-{noise}"
        directory.mkdir()
        site = Site(directory=directory, trust="shuffle", mode=mode, noise=noise, cohorts=(6, 10))
        assert read_study(site.study_file).context.study.privacy.noise == expected
