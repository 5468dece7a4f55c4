"""The pages of the documentation site, and the programs that build it and draw its pictures."""
