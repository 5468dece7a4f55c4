"""Counts for Prometheus. No label names a client, and only the operator's token opens them: how many requests
came in between two looks at them is nobody else's business."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """One registry for each party, so that several can run in one process."""

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
            "dpbandits_request_seconds", "Time to answer, by route", ["route"], registry=self.registry
        )
        self.failures = Counter("dpbandits_failures", "Mistakes of the server", registry=self.registry)
        self.phase = Gauge("dpbandits_phase", "The running phase", registry=self.registry)
        self.releases = Gauge("dpbandits_releases", "Phases released", registry=self.registry)
        self.failed_attempts = Gauge(
            "dpbandits_failed_attempts", "Attempts with too few reports", registry=self.registry
        )
        self.rounds_played = Gauge("dpbandits_rounds_played", "Rounds of the horizon", registry=self.registry)
        self.actions_left = Gauge(
            "dpbandits_actions_left", "Actions that may be best", registry=self.registry
        )
        self.driver_errors = Counter(
            "dpbandits_driver_errors",
            "Steps that could not be taken and are tried again",
            registry=self.registry,
        )

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
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
        """As Prometheus reads it."""
        return generate_latest(self.registry)
