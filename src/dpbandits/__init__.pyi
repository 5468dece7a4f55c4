from .actions import (
    Actions as Actions,
)
from .choosing._choose import (
    choose as choose,
)
from .choosing._found import (
    Found as Found,
)
from .choosing._replay import (
    Replay as Replay,
)
from .choosing._session import (
    Session as Session,
    session as session,
)
from .design._near_optimal import (
    near_g_optimal as near_g_optimal,
)
from .design._result import (
    Design as Design,
)
from .errors import (
    DpbanditsError as DpbanditsError,
)
from .options._kernel import (
    Kernel as Kernel,
)
from .options._kinds import (
    Category as Category,
    Number as Number,
    Ordered as Ordered,
)
from .options._options import (
    Options as Options,
)
from .privacy._guarantee import (
    Guarantee as Guarantee,
    PrivacyRequest as PrivacyRequest,
)
from .privacy._mechanism import (
    Mechanism as Mechanism,
)
from .privacy._registry import (
    register as register,
)
from .privacy._trust_model import (
    TrustModel as TrustModel,
    register_trust as register_trust,
)
from .privacy.noise._sources import (
    SimulatedNoise as SimulatedNoise,
)
from .protocol._codec import (
    decode as decode,
    encode as encode,
)
from .protocol._confirmation import (
    Confirmation as Confirmation,
)
from .protocol._exchange import (
    analyze as analyze,
    gather as gather,
    respond as respond,
    respond_with_averages as respond_with_averages,
    shuffle as shuffle,
)
from .protocol._lack_of_fit import (
    FitTest as FitTest,
)
from .protocol._learner import (
    ask as ask,
    replay as replay,
    tell as tell,
)
from .protocol._messages import (
    Batch as Batch,
    Plan as Plan,
    Release as Release,
    Report as Report,
)
from .protocol._planning import (
    plan_study as plan_study,
)
from .protocol._safeguard import (
    Safeguard as Safeguard,
)
from .protocol._schedule import (
    Schedule as Schedule,
)
from .protocol._state import (
    State as State,
)
from .protocol._study import (
    Study as Study,
)
from .rounds._in_process import (
    run_in_process as run_in_process,
)
from .simulation._run import (
    simulate as simulate,
)
from .simulation._setting import (
    Setting as Setting,
)
from .simulation._sweep import (
    sweep as sweep,
)
from .simulation._trace import (
    RunTrace as RunTrace,
)
from .world._instance import (
    Instance as Instance,
)
from .world._population import (
    Population as Population,
)

__version__: str
