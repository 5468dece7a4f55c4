from ._clipping import (
    clipping_factor as clipping_factor,
)
from ._codec import (
    decode as decode,
    digest as digest,
    encode as encode,
)
from ._confirmation import (
    CLIPPING_SHARE as CLIPPING_SHARE,
    Confirmation as Confirmation,
    check_level as check_level,
    left_after_clipping as left_after_clipping,
    tabular_evidence as tabular_evidence,
    to_current as to_current,
)
from ._confirmation_size import (
    reserved as reserved,
    usual_plays as usual_plays,
)
from ._evidence import (
    PhaseEvidence as PhaseEvidence,
)
from ._exchange import (
    analyze as analyze,
    gather as gather,
    packed_report as packed_report,
    respond as respond,
    respond_with_averages as respond_with_averages,
    shuffle as shuffle,
    simulate_groups as simulate_groups,
)
from ._lack_of_fit import (
    FIT_LEVEL as FIT_LEVEL,
    FitTest as FitTest,
    fit_verdict as fit_verdict,
    reserved_fit_test as reserved_fit_test,
)
from ._leader import (
    best_estimate as best_estimate,
    gap_bound as gap_bound,
    leader as leader,
)
from ._learner import (
    ask as ask,
    replay as replay,
    states_before as states_before,
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
    spent as spent,
)
from ._plausible import (
    plausible as plausible,
)
from ._play_order import (
    action_at as action_at,
    play_order as play_order,
)
from ._pooling import (
    pooled_along as pooled_along,
)
from ._prediction import (
    Prediction as Prediction,
    predict as predict,
)
from ._progress import (
    Progress as Progress,
)
from ._proving import (
    proof_system as proof_system,
)
from ._safe_plays import (
    LossBounds as LossBounds,
)
from ._safeguard import (
    Safeguard as Safeguard,
)
from ._schedule import (
    Schedule as Schedule,
)
from ._state import (
    State as State,
)
from ._steps import (
    STEP_NAMES as STEP_NAMES,
    Steps as Steps,
)
from ._study import (
    OBJECTIVES as OBJECTIVES,
    WHEN_CLIENTS_RUN_OUT as WHEN_CLIENTS_RUN_OUT,
    Study as Study,
)
from ._sums import (
    Sums as Sums,
    add_noise as add_noise,
    add_up as add_up,
    combine as combine,
    merge as merge,
    nothing as nothing,
    report_range as report_range,
    report_totals as report_totals,
    share_message as share_message,
    summable as summable,
    sums_of as sums_of,
)
from .assignment import (
    CohortErrors as CohortErrors,
)
from .model import (
    REWARD_MODELS as REWARD_MODELS,
    Fit as Fit,
    LinearFit as LinearFit,
    RewardModel as RewardModel,
    fitted as fitted,
    register_model as register_model,
)
