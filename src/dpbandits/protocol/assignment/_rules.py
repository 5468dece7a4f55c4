"""`ASSIGNMENTS`: the accepted values of `Study.assignment`, with their implementations."""

from __future__ import annotations

from dpbandits.protocol.assignment._everyone import Everyone
from dpbandits.protocol.assignment._interface import Assignment
from dpbandits.protocol.assignment._one_per_round import OnePerRound

ASSIGNMENTS: dict[str, Assignment] = {"everyone": Everyone(), "one_per_round": OnePerRound()}
