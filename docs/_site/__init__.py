"""Builds the documentation site. `python -m docs._site` in the root of the repository writes it to out/site.

    _docstrings.py  docstrings into sections, and sections into Markdown
    _api.py         a page per public name, a page per package
    _commands.py    a page per command, from the argument parsers
    _http.py        the HTTP API, from the OpenAPI descriptions
    _staging.py     hand-written and generated pages, in one folder, with links that work there
    _links.py       finds broken links in the built site
    __main__.py     all of it, then Zensical

Generated pages are not in the repository, so they cannot be older than the code.
"""
