"""Opens a store by its URL."""

from dpbandits.errors import InvalidValue
from dpbandits.storage._interface import Store
from dpbandits.storage._memory import MemoryStore


def open_store(url: str, *, read_only: bool = False) -> Store:
    """Open the store that `url` names.

    Args:
        url: `sqlite:///FILE`, `postgresql://…`, or `memory:` for a store that ends with its process.
        read_only: Whether the store is only read, so that another process may use it at the same time. Its
            schema is not upgraded, and a write raises `StorageError`. A store in memory ignores this.

    Returns:
        The store. Unless it is only read, its schema is upgraded to the newest version.

    Raises:
        InvalidValue: SQLAlchemy or the driver of the database is not installed, the URL is not one of the
            above, or the schema is of a newer version of dpbandits. With `read_only`, also if there is no
            store or its schema is older.
        StorageError: The database cannot be opened.

    Example:
        >>> from dpbandits.storage import open_store
        >>> store = open_store("memory:")
        >>> with store.transaction() as transaction:
        ...     print(transaction.latest())
        None
        >>> store.close()
    """
    if url == "memory:":
        return MemoryStore()
    try:
        from dpbandits.storage._sql import ReadOnlySqlStore, SqlStore
    except ImportError:
        remedy = "an installed SQLAlchemy: pip install '.[service]' in a clone of dpbandits"
        raise InvalidValue("storage", "no such package", remedy) from None
    if read_only:
        return ReadOnlySqlStore(url)
    return SqlStore(url)
