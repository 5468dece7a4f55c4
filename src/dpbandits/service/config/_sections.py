"""The names of all sections and keys of study files and of shuffler files (TOML):

    [study]      actions (a file; none with [options]), horizon, bound, bounded_rewards, heterogeneity,
                 population, when_clients_run_out, design_tolerance, confidence, stop_when_decided, stop_gap,
                 objective, model, reward_range, reward_variance, misfit
    [options]    a table of options with names, see _options_section.py
    [privacy]    trust, epsilon, delta, preset, noise, minimum_share, silent_share
    [schedule]   participants (the schedule is then planned at the first start), cohorts, alpha or
                 fixed_cohort; maximum_cohort, first_length, growth
    [confirmation] enabled, cohort or width, finalists, assumes: the last cohort, which compares finalists
                 with `current` of [options]; on by default if there is a `current` and `participants`
    [fit_test]   cohort or notice, plays, coordinates: a cohort that tests whether mean rewards are linear
    [safeguard]  margin, allowance, current: limits on losses against the option in use today
    [timing]     report_seconds, join_seconds, poll_seconds
    [storage]    url
    [terms]      file (the study's terms, written by `dpbandits terms`)
    [keys]       reports (the file of the private key that reports are sealed to), progress (a file that
                 records how far the study has got; by default the name of the key file plus .progress)
    [server]     host, port, certificate, key, url (the public address; by default made of host and port)
    [tokens]     operator, actuator, coordinator, reader: the SHA-256 of each role's token
    [limits]     body_bytes, all_body_bytes, trusted_body_bytes, requests_per_second, burst
    [shuffler]   in a study file: url, key, mode, token_file, certificates;
                 in a shuffler file: mode, minimum_reports, terms (a digest), operator_key
    [federation] of a study that `dpbandits federate` runs: address, certificate, key, authority, sites,
                 folder

Paths are relative to the directory of the file. No setting changes how noise is drawn.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import FitTest, Safeguard, Schedule, Study
from dpbandits.service.config._options_section import OPTIONS_KEYS
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.shared import Limits, Timing


def _keys(kind: Any, *without: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in without)


_COMMON = {
    "storage": ("url",),
    "keys": ("reports", "progress"),
    "server": ("host", "port", "certificate", "key", "url"),
    "tokens": ("operator", "actuator", "coordinator", "reader"),
    "limits": _keys(Limits),
}
# Fields of `Study` that other sections describe, or that no file may set.
_ELSEWHERE = (
    "privacy",
    "schedule",
    "steps",
    "assignment",
    "terms",
    "options",
    "confirmation",
    "fit_test",
    "safeguard",
)
STUDY = {
    "study": _keys(Study, *_ELSEWHERE),
    "options": OPTIONS_KEYS,
    "privacy": _keys(PrivacyRequest, "sampled_share"),  # clients join first come, first served
    "schedule": ("participants", *_keys(Schedule)),
    "confirmation": ("enabled", "cohort", "width", "finalists", "assumes"),
    "fit_test": ("notice", *_keys(FitTest)),
    "safeguard": _keys(Safeguard),
    "timing": _keys(Timing),
    "shuffler": ("url", "key", "mode", "token_file", "certificates"),
    "terms": ("file",),
    "federation": ("address", "certificate", "key", "authority", "sites", "folder"),
    **_COMMON,
}
SHUFFLER = {"shuffler": ("mode", "minimum_reports", "terms", "operator_key"), **_COMMON}


def study_file(path: Path) -> TomlFile:
    """Open a study file, and check the names of its sections and keys.

    Args:
        path: The TOML file.

    Returns:
        The file.

    Raises:
        InvalidValue: The file does not exist, or has an unknown section or key; the error names the line.
    """
    file = TomlFile(path)
    file.sections(STUDY)
    return file


def require_cohorts(participants: object) -> None:
    """Check that a study, for which terms are written or read, states its cohorts.

    Args:
        participants: The value of `[schedule] participants`; None if the study file does not have it.

    Raises:
        InvalidValue: There is such a value: the cohorts are planned at the first start.
    """
    if participants is not None:
        expected = (
            "`cohorts` instead, because terms state the size of every cohort: `dpbandits plan --write` "
            "writes a study file with cohorts"
        )
        raise InvalidValue("schedule.participants", participants, expected)


def shuffler_file(path: Path) -> TomlFile:
    """Open a shuffler's file, and check the names of its sections and keys, as `study_file` does."""
    file = TomlFile(path)
    file.sections(SHUFFLER)
    return file
