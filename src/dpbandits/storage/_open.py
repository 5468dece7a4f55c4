"""Opens a store by its URL."""

from dpbandits.errors import InvalidValue
from dpbandits.storage._interface import Store
from dpbandits.storage._memory import MemoryStore


def open_store(url: str) -> Store:
    """Open the store that `url` names.

    Args:
        url: `sqlite:///FILE`, `postgresql://…`, or `memory:` for a store that ends with its process.

    Returns:
        The store, with its schema upgraded to the newest version.

    Raises:
        InvalidValue: SQLAlchemy is not installed, the URL is not one of the above, or the schema is of a
            newer version of dpbandits.
        StorageError: The database cannot be opened.
    """
    if url == "memory:":
        return MemoryStore()
    try:
        from dpbandits.storage._sql import SqlStore
    except ImportError:
        remedy = "an installed SQLAlchemy: pip install '.[service]' in a clone of dpbandits"
        raise InvalidValue("storage", "no such package", remedy) from None
    return SqlStore(url)
