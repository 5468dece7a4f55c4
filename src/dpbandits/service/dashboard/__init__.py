"""The dashboard of a coordinator: pages for everybody with the link, and orders for the operator."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
