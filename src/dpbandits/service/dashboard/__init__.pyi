from ._app import (
    add_dashboard as add_dashboard,
)
