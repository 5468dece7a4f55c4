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
)
from dpbandits.protocol.learner import ask, replay, tell
from dpbandits.protocol.messages import Batch, Payload, Plan, Release, Report
from dpbandits.protocol.schedule import Schedule
from dpbandits.protocol.steps import STEP_NAMES, Steps
from dpbandits.protocol.study import ASSIGNMENTS, WHEN_CLIENTS_RUN_OUT, Evidence, State, Study

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
    "analyze",
    "ask",
    "decode",
    "encode",
    "gather",
    "replay",
    "respond",
    "respond_with_averages",
    "shuffle",
    "simulate_release",
    "simulate_release_in_blocks",
    "tell",
]
