from ._approximate import (
    Approximated as Approximated,
)
from ._ball import (
    BallSum as BallSum,
    least_ball_scale as least_ball_scale,
)
from ._calibrate import (
    discrete_laplace_scale as discrete_laplace_scale,
    least_discrete_gaussian_sigma as least_discrete_gaussian_sigma,
    least_discrete_laplace_scale as least_discrete_laplace_scale,
    least_skellam_variance as least_skellam_variance,
    pure_scale as pure_scale,
)
from ._compose import (
    GaussianComposition as GaussianComposition,
    Mixed as Mixed,
    compose as compose,
)
from ._discrete_gaussian import (
    DiscreteGaussian as DiscreteGaussian,
)
from ._encoding import (
    choose_encoding as choose_encoding,
)
from ._event import (
    Event as Event,
    GaussianEvent as GaussianEvent,
    NothingHidden as NothingHidden,
    PureEvent as PureEvent,
)
from ._gaussian import (
    classical_noise_ratio as classical_noise_ratio,
    gaussian_noise_ratio as gaussian_noise_ratio,
)
from ._integer_sum import (
    Composition as Composition,
    IntegerSum as IntegerSum,
)
from ._noise_pmf import (
    Binomial as Binomial,
    DiscreteLaplace as DiscreteLaplace,
)
from ._one_of_several import (
    WorstOf as WorstOf,
)
from ._skellam import (
    Skellam as Skellam,
)
from ._worst_pair import (
    Ends as Ends,
    mixture as mixture,
)
