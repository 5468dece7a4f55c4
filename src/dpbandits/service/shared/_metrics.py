"""Prometheus metrics of a party.

No label identifies a client. Only the operator may read the metrics, because two readings show how many
requests arrived between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Kind = TypeVar("Kind")


class Metrics:
    """The metrics of one party, in a registry of its own, so that several parties can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ["method", "route", "status"]
        self._requests = self._metric(Counter, "requests", "Requests by route and status", labels)
        self._seconds = self._metric(Histogram, "request_seconds", "Response time by route", ["route"])
        self.failures = self._metric(Counter, "failures", "Internal server errors")
        self.phase = self._metric(Gauge, "phase", "The running phase")
        self.releases = self._metric(Gauge, "releases", "Phases released")
        self.failed_attempts = self._metric(Gauge, "failed_attempts", "Attempts with too few reports")
        self.rounds_played = self._metric(Gauge, "rounds_played", "Rounds of the horizon played")
        self.actions_left = self._metric(Gauge, "actions_left", "Actions that may still be the best")
        about = "Seconds by which the store's clock is ahead of this machine's"
        self.clock_skew = self._metric(Gauge, "clock_skew_seconds", about)
        self.connections = self._metric(Gauge, "connections", "Open connections")
        about = "Connections that were ended because a step took too long, by step"
        self.timeouts = self._metric(Counter, "timeouts", about, ["step"])
        about = "Connections that were refused, or ended to make room, by reason"
        self.refused_connections = self._metric(Counter, "refused_connections", about, ["reason"])
        about = "Connections that sent something other than an HTTP request or a TLS handshake"
        self.invalid_requests = self._metric(Counter, "invalid_requests", about)
        self.driver_errors = self._metric(Counter, "driver_errors", "Steps that failed and are retried")

    def _metric(self, kind: Callable[..., Kind], name: str, about: str, labels: Sequence[str] = ()) -> Kind:
        return kind(f"dpbandits_{name}", about, labels, registry=self.registry)

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its response time.

        Args:
            method: The HTTP method.
            route: The path of the endpoint, with names in place of values.
            status: The HTTP status of the reply.
            seconds: The response time.
        """
        key = (method, route, status)
        if key not in self._known:
            self._known[key] = self._requests.labels(method, route, str(status)), self._seconds.labels(route)
        counter, histogram = self._known[key]
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
