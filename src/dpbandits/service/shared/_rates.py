"""Rate limits in memory. A request that exceeds them is refused before the store is read.

A bucket holds tokens and is refilled at a constant rate. `burst` and `requests_per_second` are from `Limits`:

    a credential that was accepted before: `burst` tokens, `requests_per_second`
    an address: 2 × `burst` tokens, `requests_per_second`
    an address, for requests without a credential: 10 × `burst` tokens, 10 × `requests_per_second`
    the study, for all addresses together: 10 × `burst` tokens, 10 × `requests_per_second`
    all bad requests together: `burst` tokens, `requests_per_second`
    all TLS handshakes together: `burst` tokens, `requests_per_second`
    all requests without a credential together: 10 × `burst` tokens, 5 × `requests_per_second`

- A bad request takes a token of its address. So does a connection that ends without a request.
- If the store does not know the credential of a request, the request takes a token of its address and a token
  of the study, even if there is none. So after several guesses at once the buckets owe tokens, which have to
  be refilled first.
- A request with a credential that was not accepted before is refused if its address or the study has no
  token left. There is one exception: the previous request on the connection was accepted. A client polls and
  then reports on the same connection, with another credential.

So honest callers take no token of their address, however many share it. A caller that guesses credentials
soon has no tokens left. Then its requests reach the store only at the rate at which tokens are refilled.

Floods from many addresses are slowed down, too:

- While the bucket of all bad requests is empty, the reply to a bad request waits for a second.
- While the bucket of all requests without a credential is empty, the reply to such a request waits for a
  second, unless the previous request on the connection was accepted.
- After such a wait the connection ends, unless the previous request on it was accepted. The sender then needs
  another handshake.
- A handshake takes a token and waits until there is one, each address in turn (_accepting.py). The first
  accepted request of a connection gives the token back, so honest callers use up none.

An IPv6 address counts as its first 64 bits, because one customer of a provider usually has all addresses that
begin with the same 64 bits.
Addresses and credentials are kept as keyed hashes, whose key exists only in this process, and are not logged.
A bucket that is full again is deleted within 10 seconds. So an address is forgotten at most `4 × burst /
requests_per_second` + 10 seconds after its last bad request, which is 18 seconds by default. At most 20,000
buckets of each kind are kept; the least recently used one is dropped first.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from dpbandits.service.shared._settings import Limits

_BUCKETS = 20_000
_PROVEN = 50_000  # accepted credentials that are remembered
_MAPPED = bytes(10) + b"\xff\xff"  # the first bytes of an IPv6 address that stands for an IPv4 address
_TIDY = 10.0  # seconds between two deletions of full buckets


class _Buckets:
    """Token buckets of one size."""

    def __init__(self, most: float, rate: float, clock: Callable[[], float]) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._kept: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def left(self, key: Hashable) -> float:
        """Return how many tokens a bucket has."""
        found = self._kept.get(key)
        if found is None:
            return self._most
        tokens, since = found
        return min(self._most, tokens + (self._clock() - since) * self._rate)

    def take(self, key: Hashable) -> bool:
        """Take one token; False if there is none."""
        tokens = self.left(key)
        self._put(key, tokens - 1 if tokens >= 1 else tokens)
        return tokens >= 1

    def owe(self, key: Hashable) -> None:
        """Take one token even if there is none; at most one whole bucket can be owed."""
        self._put(key, max(-self._most, self.left(key) - 1))

    def give_back(self, key: Hashable) -> None:
        """Put a token back that was taken; a full bucket stays full."""
        if key in self._kept:
            self._put(key, min(self._most, self.left(key) + 1))

    def wait(self, key: Hashable) -> float:
        """Return the seconds until there is a token."""
        return max(0.0, 1 - self.left(key)) / self._rate

    def _put(self, key: Hashable, tokens: float) -> None:
        self._kept[key] = (tokens, self._clock())
        self._kept.move_to_end(key)
        if len(self._kept) > _BUCKETS:
            self._kept.popitem(last=False)

    def tidy(self) -> None:
        """Delete the buckets that are full."""
        for one in [one for one in self._kept if self.left(one) >= self._most]:
            del self._kept[one]

    def __len__(self) -> int:
        return len(self._kept)


class Rates:
    """The rate limits of a party.

    Args:
        limits: `burst` and `requests_per_second`.
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        burst, rate = float(limits.burst), limits.requests_per_second
        self._callers = _Buckets(burst, rate, clock)
        self._addresses = _Buckets(2 * burst, rate, clock)
        self._anonymous = _Buckets(10 * burst, 10 * rate, clock)
        self._study = _Buckets(10 * burst, 10 * rate, clock)
        self._bad = _Buckets(burst, rate, clock)
        self._handshakes = _Buckets(burst, rate, clock)
        self._unknown = _Buckets(10 * burst, 5 * rate, clock)
        single = (self._study, self._bad, self._handshakes, self._unknown)
        self._all = (self._callers, self._addresses, self._anonymous, *single)
        self._proven: OrderedDict[bytes, None] = OrderedDict()
        self._clock, self._tidied = clock, clock()
        self._key = secrets.token_bytes(16)

    def allow(self, secret: str, address: str, *, proven: bool = False) -> bool:
        """Take the tokens of a request without the token of a role.

        Args:
            secret: The caller's credential; empty if it has none.
            address: The caller's address.
            proven: Whether the previous request on the same connection was accepted.

        Returns:
            Whether the request is within the limits.
        """
        if not secret:
            return self._anonymous.take(self._origin(address))
        if self._proven:
            caller = self._hashed(secret)
            if caller in self._proven:
                return self._callers.take(caller)
        return proven or (self._study.left("study") >= 1 and self.welcome(address))

    def accepted(self, secret: str) -> None:
        """Remember a credential that was accepted: its requests no longer count for their address.

        Args:
            secret: The credential.
        """
        caller = self._hashed(secret)
        if caller not in self._proven:
            self._callers.take(caller)
        self._proven[caller] = None
        self._proven.move_to_end(caller)
        if len(self._proven) > _PROVEN:
            self._proven.popitem(last=False)

    def wrong(self, secret: str, address: str) -> None:
        """Count a request whose credential is not known to the store.

        Args:
            secret: The credential.
            address: The caller's address.
        """
        self._proven.pop(self._hashed(secret), None)
        self._addresses.owe(self._origin(address))
        self._study.owe("study")

    def bad(self, address: str) -> bool:
        """Take a token of an address for a bad request.

        Args:
            address: The caller's address.

        Returns:
            False if the address has no token left.
        """
        return self._addresses.take(self._origin(address))

    def calm(self) -> bool:
        """Count a bad request of any address.

        Returns:
            False if there are too many bad requests.
        """
        return self._bad.take("all")

    def calm_strangers(self) -> bool:
        """Count a request of any address without a credential.

        Returns:
            False if there are too many such requests.
        """
        return self._unknown.take("all")

    def stranger(self) -> float:
        """Take a token for a handshake.

        Returns:
            0.0, or the seconds to wait if there is no token.
        """
        return 0.0 if self._handshakes.take("all") else self._handshakes.wait("all")

    def no_stranger(self) -> None:
        """Give the token of a handshake back: a request on its connection was accepted."""
        self._handshakes.give_back("all")

    def welcome(self, address: str) -> bool:
        """Return whether an address may open a connection: it has tokens left.

        Args:
            address: The caller's address.
        """
        return not self._addresses or self._addresses.left(self._origin(address)) >= 1

    def tidy(self) -> bool:
        """Delete full buckets, at most every 10 seconds.

        Returns:
            Whether any bucket is left.
        """
        if self._clock() - self._tidied >= _TIDY:
            self._tidied = self._clock()
            for buckets in self._all:
                buckets.tidy()
        return any(map(len, self._all))

    def _origin(self, address: str) -> bytes:
        return self._hashed(_network(address) if ":" in address else address)

    def _hashed(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=16).digest()


def _network(address: str) -> str:
    """Return the first 64 bits of an IPv6 address; all bits if it stands for an IPv4 address."""
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):  # a proxy may write anything
        return address
    return packed.hex() if packed.startswith(_MAPPED) else packed[:8].hex()
