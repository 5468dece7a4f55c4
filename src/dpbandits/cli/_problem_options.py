"""The options that describe a simulated problem, and the `Setting` that they make."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits.actions import FAMILIES
from dpbandits.cli._parser import number, whole_number, whole_number_or_unlimited
from dpbandits.protocol import WHEN_CLIENTS_RUN_OUT
from dpbandits.simulation import Cohorts, Problem, Setting
from dpbandits.world import DATA_SETS, REWARD_LAWS, USERS


def add_problem_options(group: Any) -> None:
    """Add the options for actions, horizon, rewards and clients. Every default is the paper's."""
    default = Problem()
    _add_actions(group, default)
    _add_rewards(group, default)
    _add_clients(group)
    group.add_argument(
        "--instance-seed", type=whole_number, metavar="S", help="use the same actions and θ* in every run"
    )


def _add_actions(group: Any, default: Problem) -> None:
    group.add_argument(
        "--actions", type=whole_number, default=default.actions, metavar="K", help="number of actions"
    )
    group.add_argument(
        "--dimension", type=whole_number, default=default.dimension, metavar="D", help="features per action"
    )
    group.add_argument(
        "--family", choices=FAMILIES, default=default.family, help="distribution of the actions"
    )
    group.add_argument("--actions-file", metavar="FILE", help="read the actions from a .csv or .npz file")
    group.add_argument(
        "--data", metavar="NAME", help="use real data; results are semi-real: " + ", ".join(DATA_SETS)
    )
    group.add_argument(
        "--users", choices=USERS, default=default.users, help="with --data: which of its clients take part"
    )
    group.add_argument(
        "--horizon", type=whole_number, default=Setting().horizon, metavar="T", help="number of rounds"
    )


def _add_rewards(group: Any, default: Problem) -> None:
    group.add_argument(
        "--heterogeneity",
        type=number,
        default=default.heterogeneity,
        metavar="SIGMA",
        help="standard deviation of clients' mean rewards around the population's",
    )
    group.add_argument(
        "--assumed-heterogeneity",
        type=number,
        metavar="SIGMA",
        help="the value that the learner is given, for example an upper bound (default: the true one)",
    )
    group.add_argument(
        "--rewards", choices=REWARD_LAWS, default=default.rewards, help="distribution of single rewards"
    )
    group.add_argument(
        "--bounded-rewards",
        action=argparse.BooleanOptionalAction,
        help="let the learner assume that rewards lie in [−B, B] (default: with schedule exponential)",
    )


def _add_clients(group: Any) -> None:
    group.add_argument(
        "--population",
        type=whole_number_or_unlimited,
        default=argparse.SUPPRESS,
        metavar="N",
        help="number of clients, or `unlimited` (default: 100,000 as in the paper, unlimited for pe)",
    )
    group.add_argument(
        "--when-clients-run-out",
        choices=WHEN_CLIENTS_RUN_OUT,
        default=Setting().when_clients_run_out,
        help="refuse to start, or stop asking and play the best guess",
    )
    group.add_argument(
        "--participants",
        type=whole_number,
        metavar="N",
        help="clients that are asked in the whole study (default: as many as schedule exponential asks)",
    )
    group.add_argument(
        "--alpha",
        type=number,
        default=Cohorts().alpha,
        help="in schedule exponential phase l asks ⌈2^(alpha·l)⌉ clients",
    )


def setting_from(options: argparse.Namespace, *, trust: str) -> Setting:
    """The setting of one trust model. Fields that the command has no option for keep their defaults."""
    given = {**vars(options), "trust": trust}
    given["without"] = tuple(given.get("without") or ())
    known = Setting().as_dict()
    return Setting.of(**{name: value for name, value in given.items() if name in known})
