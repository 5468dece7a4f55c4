"""The terms of a study: everything that a client consents to, in one object with one digest.

The terms fix the trust model, the keys and addresses of both parties, (ε, δ), the least number of reports in
a release, the largest cohort, and the mechanisms that may be used. A client that knows the digest of the
terms, or the key that signed them, can verify all of these. The shuffle model protects clients from the
coordinator, so the coordinator cannot change the terms:

- Every plan contains the digest of the terms (`Plan.study`), and every sealed report is bound to it.
- `run` is random. Two runs of the same study have different terms, so a report of one run does not open in
  the other.
- Each client checks each plan against the terms (`Terms.check`). The shuffler does so when a collection
  opens, and the coordinator does so before it asks any client.

Terms are sent as the exact text that was digested and signed, so no party has to encode the same JSON again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive, whole
from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import MECHANISMS, TRUST_MODELS, Mechanism, PrivacyRequest, TrustModel
from dpbandits.protocol import Plan
from dpbandits.service.wire._messages import Digest, Strict, printable
from dpbandits.service.wire._modes import MODES
from dpbandits.service.wire._sealing import PublicKey
from dpbandits.service.wire._signing import SigningKey, VerifyKey

if TYPE_CHECKING:  # a client that only reads terms needs no planning, and so no SciPy
    from dpbandits.protocol import Study

VERSION = "dpbandits terms v1"
CONFORMANCE_VERSION = "dpbandits conformance v1"
MOST_COHORT = 2**40
MOST_SUM_BITS = 63
_RUN = re.compile(r"[0-9a-f]{32}")
_MOST_NAMES = 64  # the largest number of mechanisms, and of noise distributions, in the terms


class PartyTerms(Strict, frozen=True, kw_only=True):
    """A party's address and the public key that its reports are sealed to."""

    url: Annotated[str, msgspec.Meta(max_length=2000)]
    key: Digest


class Terms(Strict, frozen=True, kw_only=True):
    """The terms that a client consents to.

    Attributes:
        version: The version of the format. The terms of a server that only tests clients (`dpbandits serve
            --conformance`) have another version, so that no client takes them for a study.
        run: 32 random hexadecimal digits that identify one run of the study.
        study: The digest of the study without its terms.
        trust: The trust model, for example `shuffle`.
        mode: The shuffler's mode, `trusted`, `split` or `verified`; empty without a shuffler.
        epsilon: The promised ε.
        delta: The promised δ.
        minimum_reports: The least number of reports in a release.
        largest_cohort: The largest number of clients that a plan may ask.
        silent_share: The share of reports that may contain no noise while (ε, δ) still holds.
        mechanisms: The kinds of mechanism that plans may use.
        noises: The noise distributions that plans may use.
        sum_bits: Sums are taken modulo at most 2^`sum_bits`.
        coordinator: The coordinator's address and public key.
        shuffler: The shuffler's address and public key; None without a shuffler.
    """

    version: Literal["dpbandits terms v1", "dpbandits conformance v1"] = "dpbandits terms v1"
    run: str
    study: Digest
    trust: str
    mode: str
    epsilon: float
    delta: float
    minimum_reports: int
    largest_cohort: int
    silent_share: float
    mechanisms: tuple[str, ...]
    noises: tuple[str, ...]
    sum_bits: int
    coordinator: PartyTerms
    shuffler: PartyTerms | None

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise InvalidValue("terms.run", "another text", "32 hexadecimal digits")
        one_of(TRUST_MODELS, trust=self.trust)
        positive(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)
        whole(1, MOST_COHORT, minimum_reports=self.minimum_reports)
        whole(self.minimum_reports, MOST_COHORT, largest_cohort=self.largest_cohort)
        between(0, 0.99, silent_share=self.silent_share)
        whole(1, MOST_SUM_BITS, sum_bits=self.sum_bits)
        whole(0, _MOST_NAMES, mechanisms=len(self.mechanisms))
        whole(0, _MOST_NAMES, noises=len(self.noises))
        self._check_path()

    @property
    def trust_model(self) -> TrustModel:
        """The trust model that `trust` names."""
        return TRUST_MODELS[self.trust]

    @property
    def conformance(self) -> bool:
        """Whether these are the terms of a server that only tests clients."""
        return self.version == CONFORMANCE_VERSION

    @property
    def features(self) -> list[str]:
        """What a client must support to report for every plan that these terms allow.

        Example: `["local-lattice/laplace", "local-list/list"]`; in split mode also `mode/split`.
        """
        known = [MECHANISMS[kind] for kind in self.mechanisms if kind in MECHANISMS]
        pairs = [(made.kind, noise) for made in known for noise in _laws(made) if noise in self.noises]
        modes = [f"mode/{self.mode}"] if self.mode else []
        return sorted(f"{kind}/{noise}" for kind, noise in pairs) + modes

    def _check_path(self) -> None:
        PublicKey.parse(self.coordinator.key)
        if not self.trust_model.shuffler:
            if self.shuffler is not None or self.mode:
                raise InvalidValue("terms.shuffler", "a shuffler or a mode", f"none for trust {self.trust}")
            return
        one_of(MODES, mode=self.mode)
        if self.shuffler is None:
            raise InvalidValue("terms.shuffler", None, f"an address and a key for trust {self.trust}")
        PublicKey.parse(self.shuffler.key)

    def check(self, plan: Plan, digest: str) -> Mechanism:
        """Check that a plan keeps these terms.

        The accountant computes the privacy of the plan's mechanism. A plan is refused if the accountant
        cannot prove (ε, δ).

        Args:
            plan: The plan to check.
            digest: The digest of these terms.

        Returns:
            The plan's mechanism.

        Raises:
            Refused: `outside-terms`; the message says which term the plan does not keep.
        """
        mechanism = plan.mechanism
        _require(plan.study == digest, "the plan belongs to other terms")
        if mechanism is None:
            raise Refused("outside-terms", "the plan asks no client for a report")
        self._check_mechanism(mechanism)
        most, promise = self.largest_cohort, f"({self.epsilon:g}, {self.delta:g})-DP"
        _require(1 <= plan.cohort <= most, f"the plan's cohort is not from 1 to {most:,}")
        if self.trust_model.private:
            proved = proved_delta(mechanism, self.epsilon) <= self.delta
            _require(proved, f"the noise does not give {promise}")
        return mechanism

    def _check_mechanism(self, mechanism: Mechanism) -> None:
        listed = mechanism.kind in self.mechanisms and mechanism.noise_name in self.noises
        bits, least, share = self.sum_bits, self.minimum_reports, self.silent_share
        _require(mechanism.trust == self.trust, f"the plan's trust model is not {self.trust}")
        _require(listed, "the plan's mechanism or noise is not listed in the terms")
        _require(mechanism.sum_bits <= bits, f"the plan's sums need more than {bits} bits")
        alone = not mechanism.needs_shares or self.mode != "trusted"
        _require(alone, f"{mechanism.noise_name} noise needs a shuffler of mode split or verified")
        limited = self.mode != "verified" or (mechanism.additive and mechanism.limits_reports)
        _require(limited, f"reports with {mechanism.noise_name} noise have no range that could be proved")
        if self.trust_model.shares_noise:
            calibrated, silent = mechanism.minimum_reports, getattr(mechanism, "silent_share", 0.0)
            _require(calibrated >= least, f"the noise is calibrated for fewer than {least:,} reports")
            _require(silent >= share, f"noise must suffice even if a share {share:g} of reports has none")


def _laws(mechanism: type[Mechanism]) -> tuple[str, ...]:
    """Return the noise distributions that a mechanism can have."""
    return tuple(getattr(mechanism, "laws", ())) or (str(getattr(mechanism, "noise", mechanism.kind)),)


def _require(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Refused("outside-terms", otherwise)


def proved_delta(mechanism: Mechanism, epsilon: float) -> float:
    """Return the accountant's δ(ε) for a mechanism that another party chose.

    Args:
        mechanism: The mechanism of a plan that may be forged.
        epsilon: The ε at which to compute δ.

    Returns:
        δ(ε), or 1, which promises nothing, if the accountant fails for any reason.
    """
    try:
        delta = float(mechanism.event.delta(epsilon))
    except Exception:  # a forged plan may cause any error
        return 1.0
    return delta if 0 <= delta <= 1 else 1.0


class SignedTerms(Strict, frozen=True, kw_only=True):
    """The text of the terms, with its signature.

    Example: `SignedTerms.of(terms).sign(key)`.

    Attributes:
        terms: The JSON text of the terms.
        signature: The signature of the text in hexadecimal digits; empty if the terms are not signed.
    """

    terms: Annotated[str, msgspec.Meta(max_length=100_000)]
    signature: Annotated[str, msgspec.Meta(max_length=200)] = ""

    @staticmethod
    def of(terms: Terms) -> SignedTerms:
        """Return terms as text, without a signature.

        Args:
            terms: The terms.
        """
        return SignedTerms(terms=msgspec.json.encode(terms).decode())

    @property
    def digest(self) -> str:
        """The SHA-256 of the text in hexadecimal digits; it identifies the study in all messages."""
        return hashlib.sha256(self.terms.encode()).hexdigest()

    def opened(self) -> Terms:
        """Decode the text.

        Returns:
            The terms.

        Raises:
            Refused: The text is not valid terms of this version.
        """
        try:
            return msgspec.json.decode(self.terms, type=Terms)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            reason = printable(str(error), 200)  # it may quote a hostile text
            raise Refused("unreadable", f"the text is not valid terms of this version ({reason})") from None

    def signed_by(self, key: VerifyKey) -> bool:
        """Return whether a key signed the text.

        Args:
            key: The public key.
        """
        return key.accepts(self._message, self.signature)

    def sign(self, key: SigningKey) -> SignedTerms:
        """Return the same terms with a signature.

        Args:
            key: The private key.
        """
        return SignedTerms(terms=self.terms, signature=key.sign(self._message))

    @property
    def _message(self) -> bytes:
        """The signed bytes: a version, so that the signature fits no other kind of message, and the text."""
        return VERSION.encode() + b"\n" + self.terms.encode()


def read_terms(path: Path) -> SignedTerms:
    """Read a file with terms, and check that they are valid.

    Args:
        path: The file, as `dpbandits terms` writes it.

    Returns:
        The terms with their signature.

    Raises:
        InvalidValue: The file has no valid terms.
    """
    try:
        signed = msgspec.json.decode(path.read_bytes(), type=SignedTerms)
        signed.opened()
    except (msgspec.DecodeError, ValueError, RecursionError, Refused) as error:
        raise InvalidValue("file", path, f"a file that `dpbandits terms` wrote ({error})") from None
    return signed


def new_run() -> str:
    """Return a random identifier for one run of a study, 32 hexadecimal digits."""
    return secrets.token_hex(16)


def terms_of(
    study: Study,
    *,
    run: str,
    coordinator: PartyTerms,
    shuffler: PartyTerms | None = None,
    mode: str = "",
    conformance: bool = False,
) -> Terms:
    """Return the terms of a study. The cohort sizes come from its schedule.

    Args:
        study: The study.
        run: The identifier of the run, from `new_run`.
        coordinator: The coordinator's address and public key.
        shuffler: The shuffler's address and public key, if the trust model has a shuffler.
        mode: The shuffler's mode, `trusted`, `split` or `verified`; empty without a shuffler.
        conformance: Whether these are the terms of a server that only tests clients.

    Returns:
        The terms.

    Raises:
        InvalidValue: No phase of the study asks for reports, the study samples clients, or the parties do not
            fit the trust model.
    """
    privacy = study.privacy
    if privacy.sampled_share < 1:  # sampling is secret, but a client that joins knows that it is asked
        expected = "1 in a deployed study, where clients join first come, first served"
        raise InvalidValue("sampled_share", privacy.sampled_share, expected)
    phases = range(1, study.schedule.reporting_phases(study.horizon) + 1)
    cohorts = [study.schedule.cohort(phase) for phase in phases]
    if not cohorts:
        raise InvalidValue("horizon", study.horizon, "a horizon in which a phase asks for reports")
    cohorts += [own.cohort for own in (study.fit_test, study.confirmation) if own is not None]
    return Terms(
        version="dpbandits conformance v1" if conformance else "dpbandits terms v1",
        run=run,
        study=study.without_terms.digest,
        trust=privacy.trust,
        mode=mode,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        minimum_reports=privacy.minimum_reports(min(cohorts)),
        largest_cohort=max(cohorts),
        silent_share=privacy.silent_share,
        mechanisms=_mechanisms(privacy),
        noises=_noises(privacy),
        sum_bits=MOST_SUM_BITS,
        coordinator=coordinator,
        shuffler=shuffler,
    )


def _mechanisms(privacy: PrivacyRequest) -> tuple[str, ...]:
    """Return the kinds of mechanism of the trust model, or the one kind that the request names.

    The result does not depend on which plugins are installed.
    """
    model = privacy.trust_model
    named = model.named(privacy.mechanism_noise) if model.private else None
    return model.kinds if named is None else (named.kind,)


def _noises(privacy: PrivacyRequest) -> tuple[str, ...]:
    model = privacy.trust_model
    if not model.private:
        return ("none",)
    return tuple(sorted(set(privacy.noises)))
