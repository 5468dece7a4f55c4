"""Who runs which part of a federation, what each party sees, and the terms that sites agree to."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.errors import InvalidValue
from dpbandits.privacy import TrustModel
from dpbandits.protocol import Study
from dpbandits.service.wire import PartyTerms, PublicKey, Terms, new_run, terms_of


@dataclass(frozen=True, kw_only=True)
class FederationRoles:
    """Who runs the SuperLink and the ServerApp under a trust model, and what each party sees.

    Attributes:
        operator: Who must run the SuperLink and the ServerApp. They hold the key that decrypts the answers.
        operator_sees: What the operator sees of users.
        others_see: What everybody else who receives the releases sees, including other sites.
        site_sees: What a site sees of its own users.
        needs: The assumptions of the guarantee.
    """

    operator: str
    operator_sees: str
    others_see: str
    site_sees: str = "the rewards of its own users: each user trusts its site"
    needs: str


_OWN_SITE = "a user's own site is trusted: it runs R for the user as installed, and keeps the rewards secret"
_RELEASES = "the releases: one private mean per reported number and phase"


def roles(model: TrustModel, study: Study | None = None) -> FederationRoles:
    """Return who runs what under a trust model.

    Args:
        model: The trust model.
        study: If given, `needs` also names the honest users that the first phase of the study requires.

    Returns:
        The roles.
    """
    needs = f"{_OWN_SITE}; {_needs(model, study)}"
    if not model.private:
        operator, sees = "anybody: nothing is protected", "every report without noise"
    elif model.view == "report":
        operator, sees = "anybody: it need not be trusted", "reports that each contain all their noise"
    elif model.shuffler:
        operator = "the shuffler's operator, and not the party that users are protected from"
        sees = (
            "the sum of each site's reports. It contains the noise of that site's users only, so it is less "
            "private than the release"
        )
    else:
        operator = "the server that users trust"
        sees = "the sum of each site's clipped values without noise, and no single user's value"
    return FederationRoles(operator=operator, operator_sees=sees, others_see=_RELEASES, needs=needs)


def _needs(model: TrustModel, study: Study | None) -> str:
    from dpbandits.protocol import ask  # slow to import

    if model.noise_per_client:  # `rests_on` is about the client's own device; here the site acts for it
        return "the operator and all other sites may collude"
    if study is None or not model.private:
        return model.rests_on
    mechanism = ask(study.begin()).mechanism
    return model.rests_on if mechanism is None else mechanism.needs


def federation_terms(study: Study, *, address: str, key: PublicKey, run: str | None = None) -> Terms:
    """Return the terms of a study in a federation, which each site agrees to.

    Args:
        study: The study, without terms.
        address: The address of the SuperLink, `host:port`.
        key: The public key that sites seal their answers to.
        run: The random name of the run; None for a new one.

    Returns:
        The terms. In the shuffle model, the operator of the SuperLink is the shuffler, in mode `trusted`.

    Raises:
        InvalidValue: No phase of the study asks for reports, or two servers must add the study's noise.
    """
    model = study.privacy.trust_model
    if model.server_noise is not None and study.privacy.mechanism_noise == model.server_noise:
        expected = "noise that users add: this noise needs two servers, and a federation has one"
        raise InvalidValue("noise", model.server_noise, expected)
    party = PartyTerms(url=f"https://{address}", key=str(key))
    return terms_of(
        study,
        run=run or new_run(),
        coordinator=party,
        shuffler=party if model.shuffler else None,
        mode="trusted" if model.shuffler else "",
    )
