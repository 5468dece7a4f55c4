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
    SiteAnswer as SiteAnswer,
)
from ._roles import (
    federation_terms as federation_terms,
    roles as roles,
)
from ._signing import (
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
