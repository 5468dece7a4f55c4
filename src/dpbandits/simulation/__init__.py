"""Drives the protocol in memory: single runs, their traces, and sweeps over settings."""

from dpbandits.simulation.run import simulate
from dpbandits.simulation.setting import ALGORITHMS, SCHEDULES, Setting
from dpbandits.simulation.sweep import run_once, sweep
from dpbandits.simulation.trace import PhaseTrace, RunTrace

__all__ = ["ALGORITHMS", "SCHEDULES", "PhaseTrace", "RunTrace", "Setting", "run_once", "simulate", "sweep"]
