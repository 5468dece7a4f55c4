"""`Sheet`: finds the record and its signature in the HTML file of a report."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dpbandits.errors import InvalidValue
from dpbandits.service.wire import Signed

_END = b"</pre>"
_EXPECTED = "a file that `dpbandits report` wrote"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The parts of a report that a program reads.

    Attributes:
        text: The JSON of the record, exactly as it was signed.
        signed: The signature.
    """

    text: str
    signed: Signed

    @staticmethod
    def read(page: bytes) -> Sheet:
        """Find the parts in the content of a file.

        Args:
            page: The content of the HTML file.

        Returns:
            The parts. The signature is not checked yet.

        Raises:
            InvalidValue: A part is missing or occurs twice, or the signature cannot be read.
        """
        try:
            text, signature = _element(page, "record").decode(), _element(page, "signature")
            return Sheet(text=text, signed=msgspec.json.decode(signature, type=Signed))
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise InvalidValue("report", "unreadable parts", f"{_EXPECTED} ({error})") from None


def _element(page: bytes, name: str) -> bytes:
    begin = f'<pre id="{name}">'.encode()
    if page.count(begin) != 1:
        raise InvalidValue("report", f"{page.count(begin)} elements `{name}`", _EXPECTED)
    content, end, _ = page.partition(begin)[2].partition(_END)
    if not end:
        raise InvalidValue("report", f"no end of `{name}`", _EXPECTED)
    return content
