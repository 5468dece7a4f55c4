"""Near-G-optimal designs: a few weighted actions from which the value of every action is learnt well.

    bounds        how many actions a design may use
    span          the dimensions that the actions really have, and coordinates in which none is small
    start         the weights to begin with
    exchange      the steps that move weight towards the action that is known worst
    reduction     fewer supported actions at no loss
    certificate   what a design achieves, recomputed without trusting any of the above
    near_optimal  the search that ties them together

The file that is named last may import all others; `certificate` imports nothing of the search.
"""

from dpbandits.design.bounds import support_bound
from dpbandits.design.certificate import Certificate, certify
from dpbandits.design.near_optimal import Design, near_g_optimal

__all__ = ["Certificate", "Design", "certify", "near_g_optimal", "support_bound"]
