from ._answers import (
    SiteAnswers as SiteAnswers,
)
from ._driver import (
    FederationDriver as FederationDriver,
    Patience as Patience,
)
from ._grid import (
    Grid as Grid,
)
from ._ledger import (
    SiteLedger as SiteLedger,
)
from ._messages import (
    Ask as Ask,
    Refusal as Refusal,
    SiteAnswer as SiteAnswer,
    Status as Status,
    StatusRequest as StatusRequest,
    packed as packed,
    read_reply as read_reply,
    read_request as read_request,
)
from ._roles import (
    FederationRoles as FederationRoles,
    federation_terms as federation_terms,
    roles as roles,
)
from ._signing import (
    PublicSiteKey as PublicSiteKey,
    SiteKey as SiteKey,
)
from ._site import (
    Site as Site,
)
from ._site_file import (
    SiteFile as SiteFile,
    read_site as read_site,
)
from ._source import (
    DataSource as DataSource,
    TableSource as TableSource,
)
from ._study_file import (
    FederationFile as FederationFile,
    read_federation as read_federation,
)
