"""Prio3: servers that add up measurements of clients, and know that each is valid, but see none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.vdaf._derivation import VERIFY_KEY_SIZE, Derivation
from dpbandits.vdaf._field import Elements
from dpbandits.vdaf._sharding import Shares, shard_batch
from dpbandits.vdaf._verification import (
    OutShares,
    Prepared,
    combine_batch,
    finish_batch,
    out_shares,
    prepare_batch,
)

LEADER = 0
HELPER = 1
_LONGEST_CONTEXT = 65_527  # the domain separation tag adds 8 bytes and has at most 65,535


@dataclass(frozen=True, kw_only=True)
class Prio3(Derivation):
    """One instance of Prio3, on whose parameters clients and servers agree.

    Functions such as `sum_vec_with_multiproof` make instances.

    1. A client calls `shard`. It sends the public share to all servers, and each input share to its server.
    2. Each server calls `prepare_batch` and sends the verifier shares to the other servers.
    3. One server calls `combine_batch` and sends the messages to the other servers.
    4. Each server calls `finish_batch`, then `aggregate`.
    5. `unshard` adds up the aggregate shares of all servers.

        vdaf = sum_vec_with_multiproof(numbers=20, largest=8191, context=b"study 7, round 3")
        public, (leader, helper) = vdaf.shard(numbers, os.urandom(NONCE_SIZE), os.urandom(vdaf.rand_size))
    """

    def __post_init__(self) -> None:
        whole(2, 255, shares=self.shares)
        whole(1, 255, proofs=self.proofs)
        if len(self.context) > _LONGEST_CONTEXT:
            raise InvalidValue(
                "context", f"{len(self.context):,} bytes", f"at most {_LONGEST_CONTEXT:,} bytes"
            )

    def shard(self, measurement: Any, nonce: bytes, rand: bytes) -> Shares:
        """Make one report.

        Args:
            measurement: What the client contributes, of the type of this instance.
            nonce: 16 bytes from a cryptographic random number generator, which identify the report.
            rand: `rand_size` bytes from a cryptographic random number generator, which are kept secret.

        Returns:
            The public share, and one input share per server.

        Raises:
            InvalidValue: The measurement is not valid, or a byte string has the wrong size.
        """
        return self.shard_batch([measurement], [nonce], [rand])[0]

    def shard_batch(self, measurements: Any, nonces: Sequence[bytes], rands: Sequence[bytes]) -> list[Shares]:
        """Make a report for each of several measurements, as `shard` does for one.

        Args:
            measurements: One per report.
            nonces: As in `shard`, one per report.
            rands: As in `shard`, one per report.

        Returns:
            One report per measurement.

        Raises:
            InvalidValue: As in `shard`, or the lists differ in length.
        """
        return shard_batch(self, measurements, nonces, rands)

    def prepare_batch(
        self,
        verify_key: bytes,
        server: int,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
    ) -> tuple[Prepared, list[bytes | None]]:
        """Check the shares of one server, as far as it can do so alone.

        Args:
            verify_key: 32 random bytes that all servers know and no client does.
            server: 0 for the leader; 1 to `shares` − 1 for a helper.
            nonces: One per report. The caller rejects nonces that were used before.
            public_shares: One per report.
            input_shares: This server's share of each report.

        Returns:
            What `finish_batch` needs, and a verifier share per report for the other servers. The verifier
            share of a malformed report is None. The same arguments always give the same result.

        Raises:
            InvalidValue: The key has the wrong size, there is no such server, or the lists differ in length.
                A bad report never raises.
        """
        whole(0, self.shares - 1, server=server)
        if len(verify_key) != VERIFY_KEY_SIZE:
            raise InvalidValue("verify_key", f"{len(verify_key)} bytes", f"{VERIFY_KEY_SIZE} bytes")
        _same_length(nonces=nonces, public_shares=public_shares, input_shares=input_shares)
        return prepare_batch(self, verify_key, server, nonces, public_shares, input_shares)

    def combine_batch(self, *verifier_shares: Sequence[bytes | None]) -> list[bytes | None]:
        """Decide which reports are valid, from the verifier shares of all servers.

        Args:
            verifier_shares: The list of each server, the leader's first.

        Returns:
            A verifier message per report, which all servers get, or None if the report is rejected.

        Raises:
            InvalidValue: The number of lists is not that of the servers, or the lists differ in length.
        """
        if len(verifier_shares) != self.shares:
            raise InvalidValue("verifier_shares", f"{len(verifier_shares)} lists", f"{self.shares} lists")
        _same_length(**{f"verifier_shares[{at}]": given for at, given in enumerate(verifier_shares)})
        return combine_batch(self, verifier_shares)

    def finish_batch(self, prepared: Prepared, messages: Sequence[bytes | None]) -> OutShares:
        """Take the verified reports of a batch.

        Args:
            prepared: What `prepare_batch` returned.
            messages: What `combine_batch` returned.

        Returns:
            This server's output shares, with a mask of the verified reports. The rows of the others are zero.

        Raises:
            InvalidValue: The two differ in length.
        """
        _same_length(prepared=prepared.joint_seeds, messages=messages)
        return finish_batch(prepared, messages)

    def out_shares(self, server: int, input_shares: Sequence[bytes]) -> OutShares:
        """The output shares of reports that were verified earlier, without verifying them again.

        After `finish_batch` a server may forget its `Prepared`. With this it computes the same rows from the
        input shares that it stored.

        Args:
            server: 0 for the leader; 1 to `shares` − 1 for a helper.
            input_shares: This server's share of each report.

        Returns:
            The output shares. The rows of malformed shares are zero, and their entries in the mask false.
        """
        return out_shares(self, whole(0, self.shares - 1, server=server), input_shares)

    def aggregate(self, out_shares: OutShares) -> bytes:
        """The sum of a server's output shares of all verified reports: its aggregate share.

        Args:
            out_shares: What `finish_batch` or `out_shares` returned.

        Returns:
            The aggregate share, `aggregate_share_size` bytes.
        """
        return self._encode(self.circuit.field.sum(out_shares.values, axis=0))

    def merge(self, aggregate_shares: Sequence[bytes]) -> bytes:
        """The sum of aggregate shares, of several batches or of several servers.

        Args:
            aggregate_shares: What `aggregate` returned, for several batches or servers.

        Returns:
            The aggregate share of all of them.

        Raises:
            InvalidValue: A share has the wrong size or an element that is not below the modulus.
        """
        return self._encode(self._total(aggregate_shares))

    def shift(self, aggregate_share: bytes, numbers: Sequence[int]) -> bytes:
        """Add whole numbers of either sign, for example noise, to an aggregate share.

        Args:
            aggregate_share: What `aggregate` or `merge` returned.
            numbers: One for each output element.

        Returns:
            The new aggregate share.

        Raises:
            InvalidValue: The share is malformed, or there are more or fewer numbers than output elements.
        """
        if len(numbers) != self.circuit.sizes.output:
            raise InvalidValue("numbers", f"{len(numbers)} of them", f"{self.circuit.sizes.output} of them")
        field = self.circuit.field
        added = field.array([int(number) for number in numbers])
        return self._encode(field.add(self._total([aggregate_share]), added))

    def unshard(self, aggregate_shares: Sequence[bytes], reports: int, *, signed: bool = False) -> list[int]:
        """The sums over all verified reports.

        Args:
            aggregate_shares: The aggregate shares of all servers.
            reports: How many reports were verified.
            signed: Whether sums may be negative, as they may after `shift`. Then the upper half of the field
                stands for the negative numbers.

        Returns:
            The sums, one for each output element.

        Raises:
            InvalidValue: The sums of this number of reports may not fit into the field, or a share is
                malformed.
        """
        modulus = self.circuit.field.modulus
        top = modulus // 2 if signed else modulus - 1
        whole(0, top // self.circuit.largest, reports=reports)
        sums = [int(value) for value in self._total(aggregate_shares)]
        return [value - modulus if value > top else value for value in sums]

    def _total(self, aggregate_shares: Sequence[bytes]) -> Elements:
        for share in aggregate_shares:
            if len(share) != self.aggregate_share_size:
                expected = f"{self.aggregate_share_size} bytes"
                raise InvalidValue("aggregate_share", f"{len(share)} bytes", expected)
        values, valid = self.circuit.field.decode_rows(aggregate_shares, self.circuit.sizes.output)
        if not valid.all():
            raise InvalidValue(
                "aggregate_share", "an element that is too large", "elements below the modulus"
            )
        return self.circuit.field.sum(values, axis=0)

    def _encode(self, elements: Elements) -> bytes:
        return self.circuit.field.to_bytes(np.asarray(elements))


def _same_length(**lists: Sequence[object]) -> None:
    lengths = {name: len(given) for name, given in lists.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length:,} in {name}" for name, length in lengths.items())
        raise InvalidValue("batch", found, "lists of the same length")
