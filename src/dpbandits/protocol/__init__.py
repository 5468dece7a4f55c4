"""The algorithm, once: pure functions on frozen values, for every carrier."""

from dpbandits.protocol.codec import decode, encode
from dpbandits.protocol.exchange import (
    analyze,
    gather,
    respond,
    respond_with_averages,
    shuffle,
    simulate_release,
    simulate_release_in_blocks,
    simulate_separate_release,
)
from dpbandits.protocol.learner import ask, replay, tell
from dpbandits.protocol.messages import Batch, Payload, Plan, Release, Report
from dpbandits.protocol.planning import plan_study
from dpbandits.protocol.plausible import plausible
from dpbandits.protocol.schedule import Schedule
from dpbandits.protocol.steps import STEP_NAMES, Steps
from dpbandits.protocol.study import ASSIGNMENTS, WHEN_CLIENTS_RUN_OUT, Evidence, State, Study
from dpbandits.protocol.sums import (
    Sums,
    add_shares,
    add_up,
    batch_of,
    checked_array,
    checked_payload,
    combine,
    nothing,
    one_report,
    summable,
)

__all__ = [
    "ASSIGNMENTS",
    "STEP_NAMES",
    "WHEN_CLIENTS_RUN_OUT",
    "Batch",
    "Evidence",
    "Payload",
    "Plan",
    "Release",
    "Report",
    "Schedule",
    "State",
    "Steps",
    "Study",
    "Sums",
    "add_shares",
    "add_up",
    "analyze",
    "ask",
    "batch_of",
    "checked_array",
    "checked_payload",
    "combine",
    "decode",
    "encode",
    "gather",
    "nothing",
    "one_report",
    "plan_study",
    "plausible",
    "replay",
    "respond",
    "respond_with_averages",
    "shuffle",
    "simulate_release",
    "simulate_release_in_blocks",
    "simulate_separate_release",
    "summable",
    "tell",
]
