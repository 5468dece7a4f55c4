"""Differential privacy: mechanisms, trust models, noise, calibration, accounting and audits.

A mechanism has three steps: R randomizes a report at the client, S shuffles or adds reports at a third party,
and A analyzes them at the server. The trust model says which of the three parties adds noise.

    >>> from dpbandits.privacy import PrivacyRequest, calibrate
    >>> request = PrivacyRequest(trust="central", epsilon=1.0, delta=1e-6)
    >>> mechanism = calibrate(request, coordinates=60, cohort=1000, bound=1.0)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
