"""Near-G-optimal designs: a few weighted actions from which the value of every action is learnt well.

    bounds        how many actions a design may use
    rows          reading actions in blocks, never all at once
  the search
    span          the dimensions that the actions really have, and coordinates in which none is small
    start         the weights to begin with
    exchange      the steps that move weight towards the action that is known worst
    reduction     fewer supported actions at no loss
    pruning       fewer supported actions at a loss that is allowed
    streaming     the span of many actions, block by block
    active        a few of many actions, on which a design is solved
    large         the search over many actions
    near_optimal  the public function, and the search over few actions
  the certificate
    frame         scale and span, found anew
    leverage      leverages in 64-bit and in 32-bit numbers
    verifier      all leverages under one design after another, for about one pass
    certificate   what a design achieves, without trusting any part of the search
  beside them
    covers        finite sets that stand for a box, a ball or a simplex

The certificate imports nothing of the search. The search asks it about each design that it has found.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
