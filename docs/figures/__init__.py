"""The pictures of the documentation, drawn with the library: `python -m docs.figures` draws them all."""
