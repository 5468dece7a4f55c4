"""From rewards to a release: what the client, the third party and the server compute in a phase.

The letters are the paper's: the client randomizes (R), the third party shuffles (S), the server analyzes (A).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import Mechanism, Message, NoiseSource, tamed
from dpbandits.protocol._messages import Batch, Plan, Release, Report
from dpbandits.protocol._sums import Sums, signed_totals


def respond(plan: Plan, rewards: Sequence[Sequence[float]], noise: NoiseSource) -> Report:
    """At the client: average the rewards of each supported action, clip and randomize them (R).

    No reward value makes this function raise: NaN counts as 0, and every number is first clipped to
    [−2⁶⁰, 2⁶⁰]. Whether a client reports must not depend on its data.

    Args:
        plan: The plan that was played.
        rewards: For each action of `plan.support`, one reward per play.
        noise: The source of the client's noise.

    Returns:
        The report. Its `payload` is what leaves the client.

    Raises:
        ProtocolError: The number of rewards is not one per play, or the plan asks nobody.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> rewards = [[0.5] * plays for plays in plan.plays]
        >>> dp.respond(plan, rewards, examples.noise()).plan == plan.digest
        True
    """
    counts = tuple(len(seen) for seen in rewards)
    if counts != plan.plays:
        raise ProtocolError(f"rewards: got {counts} per action, expected {plan.plays}, one for each play")
    return respond_with_averages(plan, [float(np.mean(tamed(seen))) for seen in rewards], noise)


def respond_with_averages(plan: Plan, averages: Sequence[float], noise: NoiseSource) -> Report:
    """At a client that kept running averages instead of single rewards: clip and randomize them (R).

    Args:
        plan: The plan that was played.
        averages: The average reward of each action of `plan.support`.
        noise: The source of the client's noise.

    Returns:
        The report. Its `payload` is what leaves the client (`packed_report`).

    Raises:
        ProtocolError: The number of averages is not one per action, or the plan asks nobody.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> len(dp.respond_with_averages(plan, examples.averages(plan), examples.noise()).payload)
        16
    """
    return Report(plan=plan.digest, payload=packed_report(plan, averages, noise))


def packed_report(plan: Plan, averages: Sequence[float], noise: NoiseSource) -> bytes:
    """Return the bytes that leave a client: its averages, clipped, randomized (R) and packed.

    As with `respond`, no value of an average makes this function raise.

    Args:
        plan: The plan that was played.
        averages: The average reward of each action of `plan.support`.
        noise: The source of the client's noise.

    Returns:
        The packed report.

    Raises:
        ProtocolError: The number of averages is not one per action, or the plan asks nobody.
    """
    if len(averages) != len(plan.support):
        raise ProtocolError(f"averages: got {len(averages)}, expected {len(plan.support)}, one per action")
    mechanism = plan.asked_mechanism
    return mechanism.message.pack(mechanism.randomize(plan.reported(tamed(averages)[None]), noise)[0])


def shuffle(plan: Plan, reports: Sequence[Report], noise: NoiseSource) -> Batch:
    """At the third party: validate the reports and shuffle them (S).

    Args:
        plan: The plan of the cohort.
        reports: One report per client that reported.
        noise: The source of the third party's noise and of the permutation.

    Returns:
        The batch that the third party sends to the server.

    Raises:
        PlanMismatch: A report belongs to another plan.
        TooFewReports: There are fewer reports than the noise was calibrated for.
        InvalidValue: A report is not one that an honest client can send.
        ProtocolError: There are more reports than clients in the cohort, or the plan asks nobody.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> batch = dp.shuffle(plan, examples.reports(plan), examples.noise())
        >>> batch.reports, batch.plan == plan.digest
        (20, True)
    """
    mechanism = plan.asked_mechanism
    if any(report.plan != plan.digest for report in reports):
        raise PlanMismatch(f"a report belongs to another plan than {plan.digest[:12]}")
    if len(reports) < mechanism.minimum_reports:
        raise TooFewReports(len(reports), mechanism.minimum_reports)
    if len(reports) > plan.cohort:
        raise ProtocolError(f"reports: got {len(reports):,}, expected at most the cohort's {plan.cohort:,}")
    rows = mechanism.message.unpack([report.payload for report in reports])
    shuffled = mechanism.shuffle(rows, noise)
    payload = _batch_message(mechanism, len(reports)).pack(shuffled)
    return Batch(plan=plan.digest, payload=payload, reports=len(reports))


def analyze(plan: Plan, batch: Batch | Sums, noise: NoiseSource) -> Release:
    """At the server: compute the private means from a batch (A).

    Args:
        plan: The plan of the cohort.
        batch: The result of `shuffle`, or the sums of the cohort's reports; both give the same release.
        noise: The source of the server's noise.

    Returns:
        The release. The learner sees nothing else of the clients' data.

    Raises:
        PlanMismatch: The batch belongs to another plan.
        TooFewReports: The batch has fewer reports than the noise was calibrated for.
        InvalidValue: The length of the batch's payload does not match its number of reports.
        ProtocolError: The plan asks nobody, or the sums cannot be those of its cohort.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> noise = examples.noise()
        >>> batch = dp.shuffle(plan, examples.reports(plan), noise)
        >>> release = dp.analyze(plan, batch, noise)
        >>> [round(mean, 3) for mean in release.means]
        [0.9, 0.1]
    """
    mechanism = plan.asked_mechanism
    if batch.plan != plan.digest:
        raise PlanMismatch(f"the batch belongs to another plan than {plan.digest[:12]}")
    if isinstance(batch, Sums):
        array = mechanism.batch_of_sums(signed_totals(plan, batch), batch.reports)
    else:
        array = _batch_message(mechanism, batch.reports).unpack([batch.payload])[0]
    means = tuple((mechanism.analyze(array, batch.reports, noise) + plan.centre).tolist())
    return Release(plan=plan.digest, means=means, reports=batch.reports, simulated=noise.simulated)


def _batch_message(mechanism: Mechanism, reports: int) -> Message:
    """Return how a batch is packed.

    Entries need only be finite, since S may replace reports by their sum, which exceeds a report's range.
    """
    shape = mechanism.batch_shape(reports)
    return Message(kind=mechanism.message.kind, shape=shape, low=-np.inf, high=np.inf)


def gather(plan: Plan, releases: Sequence[Release]) -> Release:
    """At the server: join the releases of a plan's parts into the release of the plan.

    Args:
        plan: The plan of the phase.
        releases: One release per entry of `plan.parts`, in the same order.

    Returns:
        The release of the phase.

    Raises:
        PlanMismatch: The releases are not those of the plan's parts.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> actions = dp.Actions([[1, 0], [0, 1]])
        >>> schedule = dp.Schedule(first_length=10)
        >>> study = dp.Study(actions=actions, horizon=100, schedule=schedule, assignment="one_per_round")
        >>> plan = dp.ask(study.begin())
        >>> releases = []
        >>> for part in plan.parts:
        ...     reports = [dp.respond(part, [[0.5]], noise) for _ in range(part.cohort)]
        ...     releases.append(dp.analyze(part, dp.shuffle(part, reports, noise), noise))
        >>> dp.gather(plan, releases).counts
        (5, 5)
    """
    if [release.plan for release in releases] != [part.digest for part in plan.parts]:
        raise PlanMismatch(f"the releases are not those of the {len(plan.parts)} parts of phase {plan.phase}")
    if not plan.per_action:
        return releases[0]
    counts = tuple(release.reports for release in releases)
    return Release(
        plan=plan.digest,
        means=tuple(mean for release in releases for mean in release.means),
        reports=sum(counts),
        simulated=any(release.simulated for release in releases),
        counts=counts,
    )


def simulate_groups(
    plan: Plan, groups: Iterable[Iterable[FloatArray]], noise: NoiseSource
) -> tuple[Release, float]:
    """Simulate R, S and A for a phase, with the same distribution but without a message per client.

    Args:
        plan: The plan of a phase that asks clients.
        groups: For each mechanism of the plan, what its clients report (`Plan.reported`), in blocks of rows.
        noise: Simulated noise.

    Returns:
        The release, and the share of the reported numbers that clipping changed.

    Raises:
        ProtocolError: The noise is not simulated, or the plan asks nobody.
    """
    if not noise.simulated:
        raise ProtocolError("noise: expected simulated noise")
    if not plan.asks:
        raise ProtocolError(f"phase {plan.phase} only plays: it asks no clients")
    cut, means = 0, list[FloatArray]()

    def counted(mechanism: Mechanism, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        nonlocal cut
        for reported in blocks:
            cut += mechanism.entries_cut(reported)
            yield reported

    for mechanism, blocks in zip(plan.mechanisms, groups, strict=True):
        means.append(mechanism.simulate_blocks(counted(mechanism, blocks), noise))
    release = Release(
        plan=plan.digest,
        means=tuple((np.concatenate(means) + plan.centre).tolist()),
        reports=plan.cohort,
        simulated=noise.simulated,
        counts=plan.plays if plan.per_action else (),
    )
    return release, cut / (plan.cohort * means[0].size)
