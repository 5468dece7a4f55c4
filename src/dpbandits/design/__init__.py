"""Near-G-optimal designs: a few weighted actions from which the value of every action can be estimated.

    bounds        the number of actions that a design may use
    rows          reads actions in blocks, never all at once
  the search
    span          the dimensions that the actions span, and well-scaled coordinates of it
    start         initial weights
    exchange      steps that move weight to the action with the largest variance
    reduction     fewer supported actions, with no larger leverage
    pruning       fewer supported actions, with leverages within a limit
    streaming     the span of many actions, block by block
    active        the subset of many actions on which a design is solved
    large         the search over many actions
    near_optimal  the public function, and the search over few actions
  the certificate
    frame         scale and span, computed independently of the search
    leverage      leverages in 64-bit and in 32-bit numbers
    verifier      all leverages under a sequence of designs, for about one pass in total
    certificate   what a design achieves, without trusting any part of the search
  separate
    covers        finite sets that approximate a box, a ball or a simplex

The certificate imports nothing from the search. The search submits each design that it finds to the
certificate.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
