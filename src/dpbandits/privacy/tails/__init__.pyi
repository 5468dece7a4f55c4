from ._bounded import (
    BoundedErrors as BoundedErrors,
    bounded_factors as bounded_factors,
    bounded_radius as bounded_radius,
)
from ._box_norm_sums import (
    TERMS as TERMS,
    Cubes as Cubes,
    cube_sum_factors as cube_sum_factors,
    cube_sum_radius as cube_sum_radius,
)
from ._radii import (
    FEW_COORDINATES as FEW_COORDINATES,
    NOTHING as NOTHING,
    SHORTEST as SHORTEST,
    Spread as Spread,
    chernoff_factor as chernoff_factor,
    chernoff_radius as chernoff_radius,
    gaussian_exceeded as gaussian_exceeded,
    least_whole as least_whole,
    mixture_radius as mixture_radius,
    shortened_radius as shortened_radius,
    skellam_exceeded as skellam_exceeded,
    squared_norms as squared_norms,
    sub_gaussian_factor as sub_gaussian_factor,
    sub_gaussian_radius as sub_gaussian_radius,
)
from ._sums import (
    SummedErrors as SummedErrors,
    joint_radius as joint_radius,
)
from ._tables import (
    SubGaussianTail as SubGaussianTail,
    Tail as Tail,
    tail_of_bounded as tail_of_bounded,
    tail_of_people as tail_of_people,
)
