from ._codec import (
    decode as decode,
    digest as digest,
    encode as encode,
)
from ._exchange import (
    analyze as analyze,
    gather as gather,
    respond as respond,
    respond_with_averages as respond_with_averages,
    shuffle as shuffle,
    simulate_release as simulate_release,
    simulate_release_in_blocks as simulate_release_in_blocks,
    simulate_separate_release as simulate_separate_release,
)
from ._inference import (
    leader as leader,
)
from ._learner import (
    ask as ask,
    replay as replay,
    tell as tell,
)
from ._messages import (
    Batch as Batch,
    Plan as Plan,
    Release as Release,
    Report as Report,
)
from ._planning import (
    Spending as Spending,
    budgeted as budgeted,
    plan_study as plan_study,
    predict as predict,
    spent as spent,
)
from ._plausible import (
    plausible as plausible,
)
from ._schedule import (
    Schedule as Schedule,
)
from ._steps import (
    STEP_NAMES as STEP_NAMES,
    Steps as Steps,
)
from ._study import (
    ASSIGNMENTS as ASSIGNMENTS,
    WHEN_CLIENTS_RUN_OUT as WHEN_CLIENTS_RUN_OUT,
    Evidence as Evidence,
    State as State,
    Study as Study,
)
from ._sums import (
    Sums as Sums,
    add_up as add_up,
    combine as combine,
    nothing as nothing,
    share_message as share_message,
    summable as summable,
)
