"""The terms of a study: everything that a client consents to, in one object with one digest.

A client that knows the digest of the terms, or the key that signed them, knows the trust model, both
parties' keys and addresses, (ε, δ), the smallest and largest cohort, and the mechanisms that may be used.
The coordinator, from which the shuffle model protects, cannot change any of it:

- every plan names the terms by their digest (`Plan.study`), and so does every sealed report;
- `run` is random, so two runs of one study have different terms, and a report of one does not open in the
  other;
- a client checks each plan against the terms (`Terms.check`), the shuffler does so when a collection opens,
  and the coordinator does so before it asks anybody.

Terms travel as the text that was digested and signed. Nobody has to encode JSON the same way twice.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive, whole
from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import TRUST_MODELS, Mechanism, PrivacyRequest, TrustModel, may_use_ball
from dpbandits.protocol import Plan
from dpbandits.service.wire._messages import Digest, Wire
from dpbandits.service.wire._sealing import PublicKey
from dpbandits.service.wire._signing import SigningKey, VerifyKey

if TYPE_CHECKING:  # a client that only reads terms needs no planning, and so no SciPy
    from dpbandits.protocol import Study

MODES = ("trusted", "split")
VERSION = "dpbandits terms v1"
MOST_COHORT = 2**40
MOST_SUM_BITS = 63
_RUN = re.compile(r"[0-9a-f]{32}")
_WORDS = 64  # mechanisms or noises that terms may list


class PartyTerms(Wire, frozen=True, kw_only=True):
    """Where a party is, and the public key that reports for it are sealed to."""

    url: Annotated[str, msgspec.Meta(max_length=2000)]
    key: Digest


class Terms(Wire, frozen=True, kw_only=True):
    """What a client consents to. Outside the shuffle model `mode` is empty and there is no shuffler."""

    version: Literal["dpbandits terms v1"] = "dpbandits terms v1"
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
        whole(0, _WORDS, mechanisms=len(self.mechanisms))
        whole(0, _WORDS, noises=len(self.noises))
        self._check_path()

    @property
    def trust_model(self) -> TrustModel:
        """The trust model, as a value."""
        return TRUST_MODELS[self.trust]

    def _check_path(self) -> None:
        PublicKey.parse(self.coordinator.key)
        if not self.trust_model.shuffler:
            if self.shuffler is not None or self.mode:
                raise InvalidValue("terms.shuffler", "one", f"none, as trust is {self.trust}")
            return
        one_of(MODES, mode=self.mode)
        if self.shuffler is None:
            raise InvalidValue("terms.shuffler", None, f"its address and key, as trust is {self.trust}")
        PublicKey.parse(self.shuffler.key)

    def check(self, plan: Plan, digest: str) -> Mechanism:
        """The plan's mechanism, if the plan keeps these terms, whose digest is given; else `Refused`.

        The privacy of the mechanism is computed by the accountant. If it cannot prove (ε, δ), the plan is
        refused.
        """
        mechanism = plan.mechanism
        if plan.study != digest:
            raise Refused("outside-terms", "the plan belongs to other terms")
        if mechanism is None:
            raise Refused("outside-terms", "the plan asks nobody")
        self._check_mechanism(mechanism)
        if not 1 <= plan.cohort <= self.largest_cohort:
            raise Refused("outside-terms", f"the cohort is above the {self.largest_cohort:,} of the terms")
        if self.trust_model.private and not proved_delta(mechanism, self.epsilon) <= self.delta:
            raise Refused("outside-terms", f"the noise does not give ({self.epsilon:g}, {self.delta:g})-DP")
        return mechanism

    def _check_mechanism(self, mechanism: Mechanism) -> None:
        if mechanism.trust != self.trust:
            raise Refused("outside-terms", f"the plan's trust model is not {self.trust}")
        if mechanism.kind not in self.mechanisms or mechanism.noise_name not in self.noises:
            raise Refused("outside-terms", "the plan's mechanism or noise is not one of the terms")
        if mechanism.sum_bits > self.sum_bits:
            raise Refused("outside-terms", f"sums are taken modulo more than 2^{self.sum_bits}")
        if not self.trust_model.shares_noise:
            return
        if mechanism.minimum_reports < self.minimum_reports:
            raise Refused("outside-terms", f"noise is meant for fewer than {self.minimum_reports:,} reports")
        if not getattr(mechanism, "silent_share", 0.0) >= self.silent_share:
            raise Refused("outside-terms", "noise counts on more clients than the terms allow")


def proved_delta(mechanism: Mechanism, epsilon: float) -> float:
    """δ(ε) of a mechanism that somebody else chose: 1 if the accountant cannot prove less, for any reason."""
    try:
        delta = float(mechanism.event.delta(epsilon))
    except Exception:  # a plan that was made up may lead to any error
        return 1.0
    return delta if 0 <= delta <= 1 else 1.0


class SignedTerms(Wire, frozen=True, kw_only=True):
    """The text of the terms, and a signature under it in hexadecimal digits; empty if nobody signed."""

    terms: Annotated[str, msgspec.Meta(max_length=100_000)]
    signature: Annotated[str, msgspec.Meta(max_length=200)] = ""

    @staticmethod
    def of(terms: Terms) -> SignedTerms:
        """Terms as text that nobody has signed yet."""
        return SignedTerms(terms=msgspec.json.encode(terms).decode())

    @property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of the text: the name of the study wherever a study is named."""
        return hashlib.sha256(self.terms.encode()).hexdigest()

    def opened(self) -> Terms:
        """What the text says, or `Refused` if it is not terms of this version."""
        try:
            return msgspec.json.decode(self.terms, type=Terms)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise Refused("unreadable", f"these are no terms of this version ({error})") from None

    def signed_by(self, key: VerifyKey) -> bool:
        """Whether this key signed the text."""
        return key.accepts(self._message, self.signature)

    def sign(self, key: SigningKey) -> SignedTerms:
        """The same terms, signed with this key."""
        return SignedTerms(terms=self.terms, signature=key.sign(self._message))

    @property
    def _message(self) -> bytes:
        """What is signed: a label, so that the signature fits nothing else, and the text."""
        return VERSION.encode() + b"\n" + self.terms.encode()


def new_run() -> str:
    """A random name of a run."""
    return secrets.token_hex(16)


def terms_of(
    study: Study, *, run: str, coordinator: PartyTerms, shuffler: PartyTerms | None = None, mode: str = ""
) -> Terms:
    """The terms under which a study runs. Its cohorts follow from its schedule."""
    privacy = study.privacy
    phases = range(1, study.schedule.reporting_phases(study.horizon) + 1)
    cohorts = [study.schedule.cohort(phase) for phase in phases]
    if not cohorts:
        raise InvalidValue("horizon", study.horizon, "one within which at least one phase ends and asks")
    return Terms(
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
    """The trust model's kinds, or the one kind that the request names. Other plugins do not change them."""
    model = privacy.trust_model
    named = model.named(privacy.mechanism_noise) if model.private else None
    return model.kinds if named is None else (named.kind,)


def _noises(privacy: PrivacyRequest) -> tuple[str, ...]:
    model = privacy.trust_model
    if not model.private:
        return ("none",)
    ball = {str(model.gaussian_noise)} if may_use_ball(privacy) else set[str]()
    return tuple(sorted({privacy.mechanism_noise, *ball}))
