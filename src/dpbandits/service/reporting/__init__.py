"""Reports of studies that a third party can verify: the record, its page, and the checks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
