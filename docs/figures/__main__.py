"""Draw every picture of the hand-written pages again, in docs/images."""

from __future__ import annotations

from docs.figures import epsilon, examples, growth, ideas, participants, regret, who_sees_what

if __name__ == "__main__":
    for module in (ideas, who_sees_what, epsilon, participants, examples, regret, growth):
        module.draw()
