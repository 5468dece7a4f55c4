"""Finds broken links and files of other hosts in a built site."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

_TAG = re.compile(r"<(a|script|img|iframe|source|link)\b([^>]*)>")
_ANCHOR = re.compile(r"<[^>]*?\s(?:id|name)=\"?([^\"\s>]+)")
_ATTRIBUTE = re.compile(r"\b(href|src|rel)=(?:\"([^\"]*)\"|([^\s>]+))")
_NOT_LOADED = ("canonical", "author", "prev", "next")


def problems(site: Path) -> list[str]:
    """Return one line per broken link, and per file that would be loaded from another host.

    Args:
        site: The folder of the built site.
    """
    files = {
        os.path.relpath(Path(folder, name), site) for folder, _, names in os.walk(site) for name in names
    }
    pages = {
        name: (site / name).read_text(encoding="utf-8") for name in sorted(files) if name.endswith(".html")
    }
    anchors = {name: set(map(unescape, _ANCHOR.findall(text))) for name, text in pages.items()}
    found = [line for name, text in pages.items() for line in _of_page(name, text, files, anchors)]
    for name in sorted(name for name in files if name.endswith(".css")):
        text = (site / name).read_text(encoding="utf-8")
        if "url(http" in text or "@import" in text or "url(//" in text:
            found.append(f"{name}: loads something from another host")
    return found


def _of_page(name: str, text: str, files: set[str], anchors: dict[str, set[str]]) -> Iterator[str]:
    seen = dict.fromkeys((tag, given) for tag, given in _TAG.findall(text))
    for tag, given in seen:
        values = {key: unescape(quoted or plain) for key, quoted, plain in _ATTRIBUTE.findall(given)}
        url = values.get("href" if tag in ("a", "link") else "src", "")
        if not url or url.startswith("data:") or (tag == "link" and values.get("rel") in _NOT_LOADED):
            continue
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:
            if tag != "a":
                yield f"{name}: loads {url} from another host"
        elif name != "404.html":  # its links are absolute, for any folder
            yield from _inside(name, url, files, anchors)


def _inside(name: str, url: str, files: set[str], anchors: dict[str, set[str]]) -> Iterator[str]:
    """Yield what is wrong with a link within the site."""
    parts = urlsplit(url)
    target = unquote(urljoin(name, parts.path)) if parts.path else name
    if target not in files:
        target = f"{target.rstrip('/')}/index.html".lstrip("/")
    if target not in files:
        yield f"{name}: {url} does not exist"
    elif parts.fragment and target in anchors and unquote(parts.fragment) not in anchors[target]:
        yield f"{name}: {url} has no such anchor"
