"""Fully linear proofs that a shared measurement satisfies its circuit: prove, query, decide.

For each input wire of the gadget, the prover takes a polynomial through points at the powers of a root of
unity. At power 0 its value is a random seed, and at power k it is the wire's value in call k. The gadget,
applied to these polynomials, gives the gadget polynomial. Its value at power k is the result of call k. The
proof consists of the seeds and the gadget polynomial.

A verifier takes all results from the gadget polynomial and computes the circuit's output. At a random
point, it then compares the gadget polynomial with the gadget applied to the wire polynomials. Everything
before the comparison is linear in the measurement and the proof, so servers compute shares of it from their
shares.

Arrays have the axes [reports, proofs, …].
"""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import BoolArray
from dpbandits.vdaf._circuits import Circuit
from dpbandits.vdaf._field import Elements, Field, all_true
from dpbandits.vdaf._polynomials import double, evaluation_weights, last_value


def wire_length(circuit: Circuit) -> int:
    """Values of a wire polynomial: a power of two, at least one more than the gadget has calls."""
    return 1 << circuit.sizes.calls.bit_length()


def proof_length(circuit: Circuit) -> int:
    """Elements of a proof: the wire seeds, and the values of the gadget polynomial."""
    return circuit.sizes.arity + 2 * wire_length(circuit) - 1


def query_length(circuit: Circuit) -> int:
    """Elements of query randomness per proof: the test point, and coefficients of the outputs if several."""
    return 1 + (circuit.sizes.evaluations if circuit.sizes.evaluations > 1 else 0)


def verifier_length(circuit: Circuit) -> int:
    """Elements of a verifier: the output, and the wire and gadget polynomials at the test point."""
    return circuit.sizes.arity + 2


def prove(circuit: Circuit, measurements: Elements, seeds: Elements, joint: Elements) -> Elements:
    """Proofs that measurements are valid.

    Args:
        circuit: The circuit that valid measurements satisfy.
        measurements: Encoded measurements, as [reports, measurement_length].
        seeds: The prover's randomness, as [reports, proofs, arity].
        joint: The joint randomness, as [reports, proofs, joint_length].

    Returns:
        The proofs, as [reports, proofs, proof_length].
    """
    field = circuit.field
    wires = field.zeros(*seeds.shape, wire_length(circuit))
    wires[..., 0] = seeds
    wires[..., 1 : circuit.sizes.calls + 1] = np.swapaxes(circuit.wires(measurements, joint, 1), -1, -2)
    results = circuit.gadget(np.swapaxes(double(field, wires), -1, -2))
    return np.concatenate([seeds, results[..., :-1]], axis=-1)


def query(
    circuit: Circuit,
    measurements: Elements,
    proofs: Elements,
    randomness: Elements,
    joint: Elements,
    shares: int,
) -> tuple[Elements, BoolArray]:
    """The verifiers of shares of measurements and proofs.

    Args:
        circuit: The circuit that valid measurements satisfy.
        measurements: Shares of encoded measurements, as [reports, measurement_length].
        proofs: Shares of proofs, as [reports, proofs, proof_length].
        randomness: The query randomness, as [reports, proofs, query_length].
        joint: The joint randomness, as [reports, proofs, joint_length].
        shares: How many servers have a share.

    Returns:
        Shares of the verifiers, as [reports, proofs, verifier_length], and a mask of the reports whose test
        points are usable. A test point that is a root of unity would reveal part of the measurement.
    """
    field, length = circuit.field, wire_length(circuit)
    seeds, values = proofs[..., : circuit.sizes.arity], proofs[..., circuit.sizes.arity :]
    values = np.concatenate([values, last_value(field, values)[..., np.newaxis]], axis=-1)
    output = circuit.outputs(measurements, values[..., 2 : 2 * circuit.sizes.calls + 1 : 2], shares)
    if circuit.sizes.evaluations > 1:
        output = field.sum(field.multiply(output, randomness[..., :-1]))[..., np.newaxis]
    point = randomness[..., -1]
    weights = evaluation_weights(field, point, length)[..., : circuit.sizes.calls + 1, np.newaxis]
    wires = field.multiply(circuit.wires(measurements, joint, shares), weights[..., 1:, :])
    wire_checks = field.add(field.sum(wires, axis=-2), field.multiply(seeds, weights[..., 0, :]))
    gadget_check = field.sum(field.multiply(values, evaluation_weights(field, point, 2 * length)))
    verifiers = np.concatenate([output, wire_checks, gadget_check[..., np.newaxis]], axis=-1)
    return verifiers, all_true(~_is_root(field, point, length))


def _is_root(field: Field, points: Elements, order: int) -> BoolArray:
    """Which points are roots of unity of an order that is a power of two."""
    power = points
    for _ in range(order.bit_length() - 1):
        power = field.multiply(power, power)
    return np.asarray(power == 1, dtype=np.bool_)


def decide(circuit: Circuit, verifiers: Elements) -> BoolArray:
    """Which reports are valid: all of their verifiers, which are sums of shares, pass both tests."""
    output, wires, gadget = verifiers[..., 0], verifiers[..., 1:-1], verifiers[..., -1]
    passed = (output == 0) & (circuit.gadget(wires) == gadget)
    return all_true(passed)
