"""The options that describe a simulated problem and its study, and the `Setting` made from them."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits.actions import FAMILIES
from dpbandits.cli._parser import (
    add_choice,
    add_flag,
    add_value,
    number,
    whole_number,
    whole_number_or_unlimited,
)
from dpbandits.protocol import OBJECTIVES, WHEN_CLIENTS_RUN_OUT
from dpbandits.simulation import Cohorts, Problem, Setting
from dpbandits.world import DATA_SETS, REWARD_LAWS, USERS


def add_problem_options(group: Any) -> None:
    """Add the options for actions, rewards, clients and what the learner does. Defaults are the paper's."""
    default = Problem()
    _add_actions(group, default)
    _add_rewards(group, default)
    _add_clients(group)
    _add_certainty(group)
    _add_safeguard(group)
    add_value(group, "--instance-seed", whole_number, "S", "use the same actions and θ* in every run")


def _add_actions(group: Any, default: Problem) -> None:
    add_value(group, "--actions", whole_number, "K", "number of actions", default.actions)
    add_value(group, "--dimension", whole_number, "D", "features per action", default.dimension)
    add_choice(group, "--family", FAMILIES, "distribution of the actions", default.family)
    add_value(group, "--actions-file", str, "FILE", "read the actions from a .csv or .npz file")
    data = "use real data, so that results are semi-real; one of " + ", ".join(DATA_SETS)
    add_value(group, "--data", str, "NAME", data)
    add_choice(group, "--users", USERS, "with --data: which clients of the data take part", default.users)
    add_value(group, "--horizon", whole_number, "T", "number of rounds", Setting().horizon)


def _add_rewards(group: Any, default: Problem) -> None:
    spread = "standard deviation of clients' mean rewards around the population's"
    add_value(group, "--heterogeneity", number, "SIGMA", spread, default.heterogeneity)
    assumed = "the heterogeneity that the learner assumes, such as an upper bound (default: the true one)"
    add_value(group, "--assumed-heterogeneity", number, "SIGMA", assumed)
    bent = "largest deviation of mean rewards from a linear function of the features"
    add_value(group, "--misfit", number, "M", bent, default.misfit)
    told = "the misfit that the learner allows for; 0 if it expects none (default: the true one)"
    add_value(group, "--assumed-misfit", number, "M", told)
    add_choice(group, "--rewards", REWARD_LAWS, "distribution of single rewards", default.rewards)
    bounded = (
        "let the learner assume that rewards lie in [−B, B] (default: with schedule exponential, except in "
        "algorithm pe, and with Bernoulli rewards if B is at least 1)"
    )
    group.add_argument("--bounded-rewards", action=argparse.BooleanOptionalAction, help=bounded)


def _add_clients(group: Any) -> None:
    size = "number of clients, or `unlimited` (default: 100,000 as in the paper, unlimited for algorithm pe)"
    add_value(group, "--population", whole_number_or_unlimited, "N", size, argparse.SUPPRESS)
    run_out = "error: refuse to start; stop: ask no more clients, and play the best guess"
    add_choice(group, "--when-clients-run-out", WHEN_CLIENTS_RUN_OUT, run_out, Setting().when_clients_run_out)
    asked = "clients to ask in the whole study (default: as many as schedule exponential asks)"
    add_value(group, "--participants", whole_number, "N", asked)
    cohorts = "in schedule exponential, phase l asks ⌈2^(alpha·l)⌉ clients"
    group.add_argument("--alpha", type=number, default=Cohorts().alpha, help=cohorts)


def _add_certainty(group: Any) -> None:
    holds = "probability with which the best action is never dropped (default: each bound fails with 1/(kT))"
    add_value(group, "--confidence", number, "C", holds)
    stop = "ask no more clients once one action is left"
    add_flag(group, "--stop-when-decided", stop)
    near = "with --stop-when-decided: also stop once the best guess is certainly within G of the best action"
    group.add_argument("--gap", dest="stop_gap", type=number, metavar="G", default=0.0, help=near)
    aim = "identification also plays actions that cannot be best, if that takes fewer clients"
    add_choice(group, "--objective", OBJECTIVES, aim, Setting().objective)


def _add_safeguard(group: Any) -> None:
    today = "index of the action in use today, counted from 0 (default: the option of --current, if given)"
    add_value(group, "--current-action", whole_number, "I", today)
    worse = "stop playing an action once it is certainly worse than the one in use today by more than X"
    add_value(group, "--safety-margin", number, "X", worse)
    loses = "let the mean reward of a phase be at most X below that of the action in use today"
    add_value(group, "--loss-allowance", number, "X", loses)


def setting_from(options: argparse.Namespace, *, trust: str) -> Setting:
    """The setting of one trust model. A field without an option of the command keeps its default."""
    given = {**vars(options), "trust": trust}
    given["without"] = tuple(given.get("without") or ())
    known = Setting().as_dict()
    return Setting.of(**{name: value for name, value in given.items() if name in known})
