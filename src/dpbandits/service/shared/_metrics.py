"""Prometheus metrics of a party.

No label identifies a client. Only the operator may read the metrics, because two readings show how many
requests arrived between them.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """The metrics of one party, in a registry of its own, so that several parties can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "dpbandits_requests",
            "Requests by route and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "dpbandits_request_seconds", "Response time by route", ["route"], registry=self.registry
        )
        self.failures = Counter("dpbandits_failures", "Internal server errors", registry=self.registry)
        self.phase = Gauge("dpbandits_phase", "The running phase", registry=self.registry)
        self.releases = Gauge("dpbandits_releases", "Phases released", registry=self.registry)
        self.failed_attempts = Gauge(
            "dpbandits_failed_attempts", "Attempts with too few reports", registry=self.registry
        )
        self.rounds_played = Gauge(
            "dpbandits_rounds_played", "Rounds of the horizon played", registry=self.registry
        )
        self.actions_left = Gauge(
            "dpbandits_actions_left", "Actions that may still be the best", registry=self.registry
        )
        self.driver_errors = Counter(
            "dpbandits_driver_errors",
            "Steps that failed and are retried",
            registry=self.registry,
        )

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its response time in seconds."""
        key = (method, route, status)
        if key not in self._known:
            counter, histogram = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(route),
            )
            self._known[key] = (counter, histogram)
        counter, histogram = self._known[key]
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
