"""`dpbandits doctor`: check the machine, the files and the shuffler of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpbandits.cli._parser import add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.cli._writing import check_writable, write_document

DESCRIPTION = (
    "Check everything that a study file, or a shuffler's file, refers to: clock, certificate, secrets, "
    "store, port, shuffler, open files, disk, and what the plan will need. The command only reads, so it can "
    "be run before a study and during it. The exit status is 1 if a check found an error."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="STUDY.toml", type=Path, help="study file or shuffler's file")
    add_value(parser, "--json", str, "PATH", "write the findings as JSON; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Print one line per finding."""
    require_service()
    check_writable(options.json)
    from dpbandits.service.config import examine

    findings = examine(options.file)
    write_document(findings, options.json)
    if options.json != "-":
        for finding in findings:
            print(f"{finding.grade:<8} {finding.check:<12} {finding.told}")
    return int(any(finding.grade == "error" for finding in findings))
