"""Reports of mode `verified`: two shares, each with a share of a proof that the report is a possible one.

The proof system is Prio3 (docs/verified-sums.md). The shuffler is its leader and the coordinator its helper.
Together they find out whether a report is valid, and neither of them sees the report:

    client        proves its report, and seals one part to each party: nonce ‖ public share ‖ input share
    shuffler      computes a verifier share of each report, and sends it to the coordinator with its joint
                  seed: verifier share ‖ joint seed
    coordinator   computes its own verifier shares, and accepts a report if both shares together show that it
                  is valid and both parties have the same joint seed
    both          add up their shares of the accepted reports

Every step is a function of the stored reports and the keys. A party that repeats a step after a crash
therefore sends the same bytes again.

A report has a number from `low` to `high` for each sum (`report_range`). The client proves the number minus
`low`, which is at least 0. In a ball it also proves that its report is not too long. A report is valid
exactly if a shuffler of mode `trusted` accepts it (`proof_system`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from dpbandits.errors import ProtocolError
from dpbandits.protocol import Plan, Sums, proof_system, report_range, report_totals, sums_of
from dpbandits.service.wire._sealing import KeyPair, Place, PublicKey
from dpbandits.vdaf import HELPER, LEADER, NONCE_SIZE, VERIFY_KEY_SIZE, OutShares, Prio3

_AT_ONCE = 1024  # reports whose shares are expanded at once, to limit memory use


@dataclass(frozen=True, kw_only=True)
class ProvedReports:
    """The proof system of one attempt at a phase.

    Attributes:
        plan: The plan of the attempt.
        prio3: The instance of Prio3. Its context names the study, the attempt and the plan.
        low: The smallest number that a report may have.
        high: The largest number that a report may have.
    """

    plan: Plan
    prio3: Prio3
    low: int
    high: int

    @staticmethod
    def of(plan: Plan, place: Place) -> ProvedReports:
        """Return the proof system for the reports of a plan.

        Args:
            plan: The plan.
            place: Where reports of the attempt belong; the pseudonym does not matter.

        Raises:
            ProtocolError: Reports of this plan cannot be added up.
            InvalidValue: The numbers of a report are too large for the proof system.
        """
        low, high = report_range(plan)
        prio3 = _proof_system(plan.asked_mechanism.message, place.shared_info("verified-sums"))
        return ProvedReports(plan=plan, prio3=prio3, low=low, high=high)

    def part_size(self, server: int) -> int:
        """Return the length of the part that a server opens.

        Args:
            server: 0 for the shuffler, 1 for the coordinator.
        """
        return NONCE_SIZE + self.prio3.public_share_size + self.prio3.input_share_size(server)

    @property
    def answer_size(self) -> int:
        """The length of what the shuffler sends the coordinator about a report that it could read."""
        return self.prio3.verifier_share_size + self.prio3.message_size

    def parts(self, payload: bytes) -> tuple[bytes, bytes]:
        """Split a report into a part for the shuffler and one for the coordinator, and prove it.

        Args:
            payload: The packed report, `Report.payload`.

        Returns:
            The part for the shuffler and the part for the coordinator.

        Raises:
            InvalidValue: The payload is not a report of this plan.
        """
        numbers = (report_totals(self.plan, payload) - self.low).tolist()
        nonce, rand = os.urandom(NONCE_SIZE), os.urandom(self.prio3.rand_size)
        public, shares = self.prio3.shard(numbers, nonce, rand)
        return nonce + public + shares[LEADER], nonce + public + shares[HELPER]

    def answers(self, key: bytes, parts: Sequence[bytes]) -> list[bytes]:
        """At the shuffler: return the verifier share and the joint seed of each report.

        Args:
            key: The verification key (`verification_key`).
            parts: The shuffler's part of each report.

        Returns:
            One byte string per report; it is empty if the report is malformed.
        """
        prepared, shares = self.prio3.prepare_batch(key, LEADER, *self._cut(parts))
        pairs = zip(shares, prepared.joint_seeds, strict=True)
        return [b"" if share is None else share + seed for share, seed in pairs]

    def accepted(self, key: bytes, parts: Sequence[bytes], answers: Sequence[bytes]) -> OutShares:
        """At the coordinator: decide which reports are valid.

        Args:
            key: The verification key (`verification_key`).
            parts: The coordinator's part of each report.
            answers: What the shuffler sent about each of them; anything malformed makes the report invalid.

        Returns:
            The coordinator's output shares, with a mask of the valid reports.
        """
        prepared, own = self.prio3.prepare_batch(key, HELPER, *self._cut(parts))
        size = self.prio3.verifier_share_size
        theirs = [answer[:size] if len(answer) == self.answer_size else None for answer in answers]
        messages = self.prio3.combine_batch(theirs, own)
        # `finish_batch` compares the message with the coordinator's seed. The shuffler's seed must be equal.
        agreed = [m if m == answer[size:] else None for m, answer in zip(messages, answers, strict=True)]
        return self.prio3.finish_batch(prepared, agreed)

    def added(self, server: int, parts: Iterable[bytes]) -> tuple[bytes, int]:
        """Add up a server's shares of reports that were accepted.

        Args:
            server: 0 is the shuffler, 1 the coordinator.
            parts: The server's part of each report. They are read once, in blocks. A malformed part is not
                added.

        Returns:
            The aggregate share, which is empty without reports, and how many reports were added.
        """
        remaining, shares, count = iter(parts), list[bytes](), 0
        while block := list(islice(remaining, _AT_ONCE)):
            found = self.prio3.out_shares(server, self._cut(block)[2])
            shares.append(self.prio3.aggregate(found))
            count += int(found.accepted.sum())
        return self.prio3.merge(shares) if shares else b"", count

    def sums(self, shares: Sequence[bytes], reports: int) -> Sums:
        """Add up the aggregate shares of both servers.

        Args:
            shares: The aggregate shares.
            reports: How many reports were accepted.

        Returns:
            The sums of the reports.

        Raises:
            InvalidValue: A share is malformed.
            ProtocolError: The sums are not those of this many valid reports.
        """
        slack = self.plan.asked_mechanism.largest_server_noise
        sums = self.prio3.unshard(shares, reports, signed=slack > 0)
        if not all(-slack <= one <= reports * (self.high - self.low) + slack for one in sums):
            raise ProtocolError("sums: got numbers that this many valid reports cannot have")
        return sums_of(self.plan, [one + reports * self.low for one in sums], reports)

    def _cut(self, parts: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
        end = NONCE_SIZE + self.prio3.public_share_size
        cut = [(part[:NONCE_SIZE], part[NONCE_SIZE:end], part[end:]) for part in parts]
        nonces, publics, shares = zip(*cut, strict=True) if cut else ((), (), ())
        return list(nonces), list(publics), list(shares)


_proof_system = lru_cache(maxsize=64)(proof_system)


def verification_key(keys: KeyPair, other: PublicKey, place: Place) -> bytes:
    """Return the key with which both parties verify the reports of an attempt.

    It is derived from the Diffie-Hellman secret of the two keys in the terms. So both parties know it and no
    client does, and it is fixed before any client makes a report. A party that could choose it later might
    learn something about a report.

    Args:
        keys: The key pair of this party.
        other: The public key of the other party.
        place: Where reports of the attempt belong; the pseudonym does not matter.

    Raises:
        InvalidValue: The other key has a small order, so no honest party has it.
    """
    return keys.shared(other, place.shared_info("verification-key"), VERIFY_KEY_SIZE)
