"""The style sheets, scripts and texts that pages load. They are compressed once, at the start."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


@dataclass(frozen=True, kw_only=True)
class _File:
    content: bytes
    compressed: bytes
    kind: str
    digest: str


class Static:
    """The files of a folder, in memory."""

    def __init__(self, files: dict[str, _File]) -> None:
        self._files = files

    @staticmethod
    def load(folder: Path) -> Static:
        """Read all files of a folder."""
        files = dict[str, _File]()
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            files[path.name] = _File(
                content=content,
                compressed=gzip.compress(content, 9, mtime=0),
                kind=f"{_TYPES[path.suffix]}; charset=utf-8",
                digest=f'"{hashlib.sha256(content).hexdigest()[:16]}"',
            )
        return Static(files)

    async def serve(self, request: Request) -> Response:
        """Return a file; the browser keeps it for an hour."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return Response("not found\n", status_code=404, media_type="text/plain")
        headers = {
            "ETag": found.digest,
            "Cache-Control": "public, max-age=3600",
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if request.headers.get("if-none-match") == found.digest:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(found.compressed, media_type=found.kind, headers=headers)
        return Response(found.content, media_type=found.kind, headers=headers)
