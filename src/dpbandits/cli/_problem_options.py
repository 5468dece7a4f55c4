"""The options that describe a problem, and the setting that they make."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from dpbandits.actions import FAMILIES
from dpbandits.cli._parser import number, whole_number, whole_number_or_unlimited
from dpbandits.protocol import WHEN_CLIENTS_RUN_OUT
from dpbandits.simulation import Setting
from dpbandits.world import DATA_SETS, REWARD_LAWS, USERS


def add_problem_options(group: Any) -> None:
    """Actions, horizon, rewards and clients: every default is the paper's setting."""
    default = Setting()
    _add_actions(group, default)
    _add_rewards(group, default)
    _add_clients(group, default)
    group.add_argument(
        "--instance-seed", type=whole_number, metavar="S", help="the same actions and θ* in every run"
    )


def _add_actions(group: Any, default: Setting) -> None:
    group.add_argument("--actions", type=whole_number, default=default.actions, metavar="K", help="how many")
    group.add_argument("--dimension", type=whole_number, default=default.dimension, metavar="D")
    group.add_argument("--family", choices=FAMILIES, default=default.family, help="where actions are drawn")
    group.add_argument("--actions-file", metavar="FILE", help="a .csv or .npz file of actions instead")
    group.add_argument(
        "--data",
        metavar="NAME",
        help="real data, whose results are semi-real: " + ", ".join(DATA_SETS),
    )
    group.add_argument(
        "--users", choices=USERS, default=default.users, help="with --data: who its clients are"
    )
    group.add_argument("--horizon", type=whole_number, default=default.horizon, metavar="T", help="rounds")


def _add_rewards(group: Any, default: Setting) -> None:
    group.add_argument(
        "--heterogeneity",
        type=number,
        default=default.heterogeneity,
        metavar="SIGMA",
        help="how far clients differ from the population's mean",
    )
    group.add_argument(
        "--assumed-heterogeneity",
        type=number,
        metavar="SIGMA",
        help="what the learner is told instead, an upper bound say",
    )
    group.add_argument(
        "--rewards", choices=REWARD_LAWS, default=default.rewards, help="how single rewards scatter"
    )
    group.add_argument(
        "--bounded-rewards",
        action=argparse.BooleanOptionalAction,
        help="whether the learner trusts that rewards lie in [−B, B] (default: with the paper's schedule)",
    )


def _add_clients(group: Any, default: Setting) -> None:
    group.add_argument(
        "--population",
        type=whole_number_or_unlimited,
        default=argparse.SUPPRESS,
        metavar="N",
        help="clients that exist, or `unlimited` (default: 100,000 as in the paper, unlimited for pe)",
    )
    group.add_argument(
        "--when-clients-run-out",
        choices=WHEN_CLIENTS_RUN_OUT,
        default=default.when_clients_run_out,
        help="refuse to start, or stop asking and play the best guess",
    )
    group.add_argument(
        "--participants", type=whole_number, metavar="N", help="the budget (default: as many as alpha gives)"
    )
    group.add_argument(
        "--alpha", type=number, default=default.alpha, help="exponential: phase l asks ⌈2^(alpha·l)⌉ clients"
    )


def setting_from(options: argparse.Namespace, *, trust: str) -> Setting:
    """The setting of one trust model; what a command has no option for keeps its default."""
    given = {**vars(options), "trust": trust}
    given["without"] = tuple(given.get("without") or ())
    known = {field.name for field in fields(Setting)}
    return Setting(**{name: value for name, value in given.items() if name in known})
