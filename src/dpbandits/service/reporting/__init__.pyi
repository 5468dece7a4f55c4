from ._figures import (
    Bar as Bar,
    intervals as intervals,
    who_sees_what as who_sees_what,
)
from ._file import (
    Sheet as Sheet,
)
from ._page import (
    environment as environment,
)
from ._record import (
    Record as Record,
)
from ._tables import (
    tables_of as tables_of,
)
from ._verdict import (
    ReportCheck as ReportCheck,
    Verdict as Verdict,
)
from ._verifying import (
    Keys as Keys,
    verify as verify,
)
from ._words import (
    parties as parties,
    promise as promise,
    who_is_protected_from as who_is_protected_from,
)
from ._writing import (
    report_page as report_page,
)
