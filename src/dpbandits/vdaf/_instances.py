"""One function per type of measurement, which makes an instance of Prio3."""

from __future__ import annotations

from dpbandits._checks import whole
from dpbandits.vdaf._ball import SumVecInBall
from dpbandits.vdaf._circuits import SumVec
from dpbandits.vdaf._field64 import Field64
from dpbandits.vdaf._prio3 import Prio3

FIELD64 = Field64()


def sum_vec_with_multiproof(
    *, numbers: int, largest: int, context: bytes, chunk: int | None = None, proofs: int = 3, shares: int = 2
) -> Prio3:
    """Sums of vectors over Field64 (Prio3SumVecWithMultiproof).

    For numbers from low to high, set `largest = high - low` and let clients subtract `low` from each
    number. Add `low` times the number of verified reports to the sums.

    Args:
        numbers: Length of the vectors.
        largest: Every number is a whole number from 0 to this.
        context: What the reports are for. A report made for one context is rejected in another.
        chunk: Bits per call of the gadget; the default makes the reports as short as possible.
        proofs: Independent proofs per report, at least 3, which the specification requires in this field.
        shares: Number of servers.

    Returns:
        The instance.

    Raises:
        InvalidValue: A parameter is out of range.
    """
    whole(1, 100_000, numbers=numbers)
    whole(1, 2**62, largest=largest)
    whole(3, 255, proofs=proofs)
    bits = numbers * largest.bit_length()
    chunk = best_chunk(bits) if chunk is None else whole(1, bits, chunk=chunk)
    circuit = SumVec(FIELD64, numbers, largest, chunk)
    return Prio3(circuit=circuit, algorithm=0xFFFFFFFF, context=context, proofs=proofs, shares=shares)


def sum_vec_in_ball(
    *,
    numbers: int,
    largest: int,
    twice_centre: int,
    largest_square: int,
    context: bytes,
    chunk: int | None = None,
    proofs: int = 3,
    shares: int = 2,
) -> Prio3:
    """Sums of vectors in a ball, over Field64. The specification has no such type; _ball.py describes it.

    A vector is valid if every number x is from 0 to `largest`, and Σ(2x - twice_centre)² ≤ largest_square.
    Example: with `largest=16`, `twice_centre=16` and `largest_square=256`, valid vectors are at most 8 from
    (8, 8, …).

    Args:
        numbers: Length of the vectors.
        largest: Every number is a whole number from 0 to this.
        twice_centre: Twice the centre of the ball, which is the same in every direction.
        largest_square: The square of the diameter of the ball.
        context: What the reports are for. A report made for one context is rejected in another.
        chunk: Products per call of the gadget; the default makes the reports as short as possible.
        proofs: Independent proofs per report, at least 3, as for all vectors in this field.
        shares: Number of servers.

    Returns:
        The instance.

    Raises:
        InvalidValue: A parameter is out of range, or the squares may not fit into 62 bits.
    """
    whole(1, 100_000, numbers=numbers)
    whole(1, 2**31, largest=largest)
    whole(0, 2 * largest, twice_centre=twice_centre)
    whole(3, 255, proofs=proofs)
    farthest = numbers * max(twice_centre, 2 * largest - twice_centre) ** 2
    whole(0, 2**62, square_of_the_farthest_corner=farthest)
    whole(1, farthest, largest_square=largest_square)
    bits = numbers * largest.bit_length() + largest_square.bit_length()
    chunk = best_chunk(bits, numbers) if chunk is None else whole(1, bits, chunk=chunk)
    circuit = SumVecInBall(FIELD64, numbers, largest, twice_centre, largest_square, chunk)
    return Prio3(circuit=circuit, algorithm=0xFFFFFFFE, context=context, proofs=proofs, shares=shares)


def best_chunk(bits: int, squares: int = 0) -> int:
    """The number of products per call of the gadget that makes a proof about `bits` bits shortest.

    A proof has 2 chunk + 2p - 1 elements, where p is a power of two above the number of calls. For each p,
    the smallest chunk with at most p - 1 calls is best. Squares are computed in separate calls.

    Args:
        bits: The number of bits of a measurement.
        squares: The number of squares that the circuit computes; 0 if it is not for a ball.

    Returns:
        The number of products.
    """

    def smallest(most: int) -> int:
        at_least = -(-(bits + squares) // most)
        chunks = range(at_least, max(bits, squares) + 1)
        return next(chunk for chunk in chunks if -(-bits // chunk) - (-squares // chunk) <= most)

    least = 2 if squares else 1
    lengths = [1 << exponent for exponent in range(least, (bits + squares).bit_length() + 1)]
    chunks = {p: smallest(p - 1) for p in lengths}
    return chunks[min(lengths, key=lambda p: 2 * chunks[p] + 2 * p - 1)]
