"""The randomness that each party derives from its seeds, and the sizes of all messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from dpbandits.vdaf._circuits import Circuit
from dpbandits.vdaf._field import Elements
from dpbandits.vdaf._flp import proof_length, query_length, verifier_length
from dpbandits.vdaf._xof import SEED_SIZE, derive_seed, expand_rows

NONCE_SIZE = 16
VERIFY_KEY_SIZE = SEED_SIZE
_VERSION = 18  # of the specification's wire format


class _Usage(IntEnum):
    """What a derived value is used for, which is part of its domain separation tag."""

    MEASUREMENT_SHARE = 1
    PROOF_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVE_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_SEED = 6
    JOINT_PART = 7


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """The parameters that all parties of one Prio3 instance share, and what they derive from seeds.

    Attributes:
        circuit: The circuit that checks a measurement.
        algorithm: The identifier of the type in the specification's registry.
        context: What the reports are for. A report made for one context is rejected in another.
        proofs: Independent proofs per report.
        shares: Servers, each of which gets a share of every report.
    """

    circuit: Circuit
    algorithm: int
    context: bytes
    proofs: int = 1
    shares: int = 2

    @property
    def blind_size(self) -> int:
        """Bytes of an input share's blind, of a joint randomness part and of a verifier message."""
        return SEED_SIZE if self.circuit.sizes.joint else 0

    @property
    def rand_size(self) -> int:
        """Bytes of randomness that a client needs for one report."""
        return (SEED_SIZE + self.blind_size) * self.shares

    @property
    def public_share_size(self) -> int:
        """Bytes of a report that all servers get."""
        return self.blind_size * self.shares

    @property
    def leader_elements(self) -> int:
        """Elements in the leader's input share: the measurement and the proofs."""
        return self.circuit.sizes.measurement + self.proofs * proof_length(self.circuit)

    @property
    def leader_share_size(self) -> int:
        """Bytes of a report that only the leader (server 0) gets."""
        return self.leader_elements * self.circuit.field.size + self.blind_size

    @property
    def helper_share_size(self) -> int:
        """Bytes of a report that only one helper (server 1 and any further) gets."""
        return SEED_SIZE + self.blind_size

    @property
    def verifier_elements(self) -> int:
        """Elements in a verifier share."""
        return self.proofs * verifier_length(self.circuit)

    @property
    def verifier_share_size(self) -> int:
        """Bytes per report that a server sends to the other servers."""
        return self.verifier_elements * self.circuit.field.size + self.blind_size

    @property
    def message_size(self) -> int:
        """Bytes of a verifier message."""
        return self.blind_size

    @property
    def aggregate_share_size(self) -> int:
        """Bytes of the sum of any number of output shares."""
        return self.circuit.sizes.output * self.circuit.field.size

    def input_share_size(self, server: int) -> int:
        """Return the bytes of a report that only one server gets.

        Args:
            server: The server; 0 is the leader.
        """
        return self.helper_share_size if server else self.leader_share_size

    def helper_shares(self, server: int, seeds: Sequence[bytes]) -> tuple[Elements, Elements]:
        """Return a helper's shares of measurements and proofs.

        Args:
            server: The helper, counted from 1.
            seeds: The seed of each report's share.

        Returns:
            The measurements as [reports, …], and the proofs as [reports, proofs, …].
        """
        measurements = self.helper_measurements(server, seeds)
        binder = [bytes([self.proofs, server])] * len(seeds)
        return measurements, self._by_proof(_Usage.PROOF_SHARE, seeds, binder, proof_length(self.circuit))

    def helper_measurements(self, server: int, seeds: Sequence[bytes]) -> Elements:
        """Return a helper's shares of measurements alone.

        Args:
            server: The helper, counted from 1.
            seeds: The seed of each report's share.
        """
        binder = [bytes([server])] * len(seeds)
        tag, length = self._tag(_Usage.MEASUREMENT_SHARE), self.circuit.sizes.measurement
        return expand_rows(self.circuit.field, seeds, tag, binder, length)

    def prove_randomness(self, seeds: Sequence[bytes]) -> Elements:
        """Return the wire seeds of each proof of each report.

        Args:
            seeds: The seed of each report's proofs.
        """
        binder = [bytes([self.proofs])] * len(seeds)
        return self._by_proof(_Usage.PROVE_RANDOMNESS, seeds, binder, self.circuit.sizes.arity)

    def query_randomness(self, verify_key: bytes, nonces: Sequence[bytes]) -> Elements:
        """Return the test points of each proof.

        Args:
            verify_key: A key that the servers share and clients do not know.
            nonces: The nonce of each report.
        """
        binders = [bytes([self.proofs]) + nonce for nonce in nonces]
        keys = [verify_key] * len(nonces)
        return self._by_proof(_Usage.QUERY_RANDOMNESS, keys, binders, query_length(self.circuit))

    def joint_parts(
        self, server: int, blinds: Sequence[bytes], nonces: Sequence[bytes], measurements: Elements
    ) -> list[bytes]:
        """Return a server's contribution to each report's joint randomness, which commits to its share.

        Args:
            server: The server; 0 is the leader.
            blinds: The blind of each report's share.
            nonces: The nonce of each report.
            measurements: The server's share of each measurement.
        """
        tag, prefix = self._tag(_Usage.JOINT_PART), bytes([server])
        rows = zip(blinds, nonces, self.circuit.field.encode_rows(measurements), strict=True)
        return [derive_seed(blind, tag, prefix + nonce + encoded) for blind, nonce, encoded in rows]

    def joint_seed(self, parts: bytes) -> bytes:
        """Return the seed of a report's joint randomness.

        Args:
            parts: The parts of all servers, in order.
        """
        return derive_seed(bytes(SEED_SIZE), self._tag(_Usage.JOINT_SEED), parts)

    def joint_randomness(self, seeds: Sequence[bytes]) -> Elements:
        """Return the joint randomness of each proof of each report.

        Args:
            seeds: The seed of each report; empty byte strings if the circuit uses no joint randomness.
        """
        binder = [bytes([self.proofs])] * len(seeds)
        return self._by_proof(_Usage.JOINT_RANDOMNESS, seeds, binder, self.circuit.sizes.joint)

    def _by_proof(
        self, usage: _Usage, seeds: Sequence[bytes], binders: Sequence[bytes], length: int
    ) -> Elements:
        field, total = self.circuit.field, self.proofs * length
        rows = expand_rows(field, seeds, self._tag(usage), binders, total)
        return rows.reshape(len(seeds), self.proofs, length)

    def _tag(self, usage: _Usage) -> bytes:
        numbers = bytes([_VERSION, 0]) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big")
        return numbers + self.context
