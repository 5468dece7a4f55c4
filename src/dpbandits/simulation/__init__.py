"""Drives the protocol in memory: single runs, their traces, jobs that are kept, and sweeps over settings."""

from dpbandits.simulation.jobs import Job, Outcome, Task, run_tasks
from dpbandits.simulation.run import simulate
from dpbandits.simulation.setting import ALGORITHMS, SCHEDULES, Setting
from dpbandits.simulation.sweep import Simulated, run_once, sweep
from dpbandits.simulation.trace import PhaseTrace, RunTrace

__all__ = [
    "ALGORITHMS",
    "SCHEDULES",
    "Job",
    "Outcome",
    "PhaseTrace",
    "RunTrace",
    "Setting",
    "Simulated",
    "Task",
    "run_once",
    "run_tasks",
    "simulate",
    "sweep",
]
