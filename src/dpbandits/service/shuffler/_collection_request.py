"""Checks a request to open a collection, as far as this needs no store: the plan must keep the terms."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.errors import InvalidValue, Refused
from dpbandits.protocol import Plan, decode
from dpbandits.service.shuffler._context import ShufflerContext
from dpbandits.service.wire import CollectionRequest, Place, ReportSlot, SignedTerms, hashed


@dataclass(frozen=True, kw_only=True)
class CheckedRequest:
    """A checked request to open a collection: the plan keeps the terms."""

    plan: Plan
    signed: SignedTerms
    members: tuple[str, ...]


def checked_request(context: ShufflerContext, phase: int, request: CollectionRequest) -> CheckedRequest:
    """Check a request to open a collection.

    This does not access the store. It runs the privacy accountant, which can take a long time, so call it
    outside the writer thread.

    Args:
        context: The configuration of the shuffler.
        phase: The phase in the path of the request.
        request: The request.

    Returns:
        The decoded plan, the terms and the cohort.

    Raises:
        Refused: The terms or the plan are not valid, the terms are not the pinned ones or do not name this
            shuffler, the plan does not keep the terms or exceeds the limits, or the cohort does not fit the
            plan.
    """
    signed = SignedTerms(terms=request.terms, signature=request.signature)
    terms = signed.opened()
    context.pins.check(terms, signed)
    if terms.conformance != context.conformance:
        raise Refused("other-terms", "a study and a conformance test need separate shufflers")
    own = (request.study, str(context.keys.public), context.mode)
    if terms.shuffler is None or (signed.digest, terms.shuffler.key, terms.mode) != own:
        raise Refused("other-terms", "the terms do not name this shuffler's key and mode")
    try:
        plan = decode(request.plan, Plan)
    except Exception:  # a forged plan may cause any error
        raise Refused("unreadable", "the plan is not a valid plan of this version") from None
    if plan.digest != hashed(request.plan):
        raise Refused("unreadable", "the plan has unknown fields or another encoding")
    terms.check(plan, signed.digest)
    members = tuple(request.members)
    if plan.phase != phase or not 1 <= len(set(members)) == len(members) <= plan.cohort:
        refused = "the plan is for a different phase, or the members do not fit its cohort"
        raise Refused("unreadable", refused)
    _check_fits(context, plan, signed.digest)
    return CheckedRequest(plan=plan, signed=signed, members=members)


def _check_fits(context: ShufflerContext, plan: Plan, study: str) -> None:
    """Refuse a plan whose reports exceed the shuffler's limits. The error says which limit they need."""
    if context.limits is None:
        return
    slot = ReportSlot(plan=plan, place=Place.of(study, plan, 1, ""), mode=context.mode)
    try:
        context.limits.check_report(slot.body_size, plan.phase)
    except InvalidValue as error:
        raise Refused("too-large", f"the shuffler's {error}") from None
