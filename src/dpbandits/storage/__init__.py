"""The journal of plans and releases, the ledger of participation, and the reports of the running phase."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
