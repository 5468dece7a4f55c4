"""Prio3 (draft-irtf-cfrg-vdaf-20): servers add up vectors that none of them sees, and check each of them.

  arithmetic
    field         what the fields have in common: byte encodings, sums, roots of unity
    field64       64-bit integers in NumPy arrays, the fast field
    polynomials   the number theoretic transform, and values of polynomials at other points
  proofs
    circuits      which measurements are valid
    ball          vectors of limited length
    flp           prove, query and decide
  Prio3
    xof           seeds and elements from TurboSHAKE128
    derivation    which randomness comes from which seed, and the sizes of all messages
    sharding      the client's part
    verification  the servers' part, for many reports at once
    prio3         the public class
    instances     the public functions, one for each type of measurement

    >>> import os
    >>> from dpbandits.vdaf import HELPER, LEADER, NONCE_SIZE, VERIFY_KEY_SIZE, sum_vec_with_multiproof
    >>> vdaf = sum_vec_with_multiproof(numbers=3, largest=100, context=b"example")
    >>> nonce, key = os.urandom(NONCE_SIZE), os.urandom(VERIFY_KEY_SIZE)
    >>> public, (for_leader, for_helper) = vdaf.shard([1, 20, 100], nonce, os.urandom(vdaf.rand_size))
    >>> ready_a, verifiers_a = vdaf.prepare_batch(key, LEADER, [nonce], [public], [for_leader])
    >>> ready_b, verifiers_b = vdaf.prepare_batch(key, HELPER, [nonce], [public], [for_helper])
    >>> messages = vdaf.combine_batch(verifiers_a, verifiers_b)
    >>> shares = [vdaf.aggregate(vdaf.finish_batch(ready, messages)) for ready in (ready_a, ready_b)]
    >>> vdaf.unshard(shares, reports=1)
    [1, 20, 100]

The package needs pycryptodomex: pip install '.[verified]' in a clone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
