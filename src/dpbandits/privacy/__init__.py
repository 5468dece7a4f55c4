"""One file per trust model (R, S, A and what each spends), noise, calibration and accounting."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
