"""`dpbandits serve`: the coordinator of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpbandits.cli._parser import add_choice, add_flag, add_value
from dpbandits.cli._privacy_options import TRUSTS
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.privacy import require_secure
from dpbandits.service.wire import MODES

DESCRIPTION = (
    "Run the coordinator of the study in STUDY.toml until the process is stopped. With --rewards: also run "
    "clients whose average rewards are in a file, and an actuator, until the study ends. With --example: run "
    "a whole small study with simulated clients, from start to end. With --conformance: test clients in "
    "other languages against a test server, which runs no study and stores nothing."
)
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("study", metavar="STUDY.toml", nargs="?", type=Path, help="see docs/deploying.md")
    add_flag(parser, "--example", "run a small study with simulated clients; needs no file")
    rewards = "rehearse: run the study to its end in this process, with one client per row of this file"
    add_value(parser, "--rewards", Path, "FILE.csv", rewards)
    add_flag(parser, "--conformance", "serve a test for clients, in memory; needs no file")
    tested = parser.add_argument_group("conformance: what a client is tested with")
    add_choice(tested, "--trust", TRUSTS, "trust model (default: local)")
    add_choice(tested, "--mode", MODES, "mode of the shuffler (default: trusted)")
    add_value(tested, "--noise", str, "NAME", "noise distribution (default: the best)")
    add_choice(parser, "--log-level", LEVELS, "level of the log on standard error", "INFO")


def run(options: argparse.Namespace) -> int:
    """Serve the study of a file, rehearse it, run the example, or serve the conformance test."""
    require_service()
    if options.example + options.conformance + (options.study is not None) != 1:
        expected = "exactly one of: a study file, --example, --conformance"
        raise InvalidValue("STUDY.toml", options.study, expected)
    if options.study is None and options.rewards is not None:
        expected = "a study file as well: --example has its own rewards, and --conformance needs none"
        raise InvalidValue("rewards", options.rewards, expected)
    if options.conformance:
        from dpbandits.cli._serve_conformance import serve_conformance

        return serve_conformance(options.trust or "local", options.mode or "trusted", options.noise)
    for name in ("trust", "mode", "noise"):  # a study file has its own
        if getattr(options, name) is not None:
            raise InvalidValue(f"--{name}", getattr(options, name), "none without --conformance")
    if options.example:
        from dpbandits.cli._serve_example import show_example

        return show_example()
    from dpbandits.service.config import read_study
    from dpbandits.service.coordinator import coordinator_app
    from dpbandits.service.dashboard import add_dashboard
    from dpbandits.service.shared import configure_logs, serve

    configure_logs(level=options.log_level)
    file = read_study(options.study)
    require_secure(file.context.noise)
    if options.rewards is not None:
        from dpbandits.cli._rehearsal import rehearse

        return rehearse(file, options.rewards)
    coordinator = file.coordinator()
    try:
        coordinator.begin()
    except BaseException:
        coordinator.close()
        raise
    app = coordinator_app(coordinator, file.roles, file.limits)
    add_dashboard(app, coordinator, file.roles)
    serve(app, file.listening)
    return 0
