"""`Found`: the result of `choose`, which can be printed, plotted, saved or turned into a data frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits._checks import installed
from dpbandits._plots import check_matplotlib
from dpbandits.answers import Answer, Lead
from dpbandits.choosing import _page
from dpbandits.errors import InvalidValue
from dpbandits.privacy import TRUST_MODELS, Guarantee
from dpbandits.protocol import State

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Found(Answer):
    """The result of `choose`, or of `Session.found`: an `Answer`, its privacy and the learner's state.

    Four kinds of intervals hold with probability `level` each: those of all mean rewards together, those of
    all differences between two options together, that of the lead over `current`, and those of all effects
    together. The intervals of a confirmation also hold together with probability `level`. So it does not
    matter that the best option was chosen from the same data. All results are computed from the releases
    alone.

    Attributes:
        best: The name of the best option, by the estimate from all phases together.
        option: The same as `best`.
        action: Its row in the actions, counted from 0.
        estimate: Its estimated mean reward.
        interval: The interval of its mean reward.
        low: The lower end of this interval.
        high: The upper end.
        lead: Its lead over the runner-up.
        lead_over_current: Its lead over the option in use today; None if none was named.
        level: The probability with which each kind of interval covers the truth.
        intervals: Why the intervals are only the range of rewards; empty if they are computed from data.
        decided: Whether the best option is better than every other option left, at `level`.
        parameter: The estimate of θ from all phases together.
        guarantee: The privacy that holds; None without privacy, or if the noise was simulated.
        simulated: Whether the noise was simulated, so that the result must not be treated as private.
        trust: The trust model.
        consistent: Whether the phases agree. If not, the mean reward is probably not linear in the features,
            and the intervals need not hold: add squares, interactions or features.
        participants: How many people were asked.
        current: The option in use today.
        options: What was learnt about each option, the highest estimate first.
        effects: What was learnt about each feature, in the user's units; empty if the options have no
            features or a kernel.
        state: The learner's state at the end.
        stopped: Why a replay asked fewer people than were planned; empty if it did not. The intervals hold in
            both cases.
        confirmation: The comparison with the current option that needs no model; None if there was none.
        fit: Whether the features explain what was measured; None if there was no fit test.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> people = {"a": [0.9] * 500, "b": [0.1] * 500}
        >>> found = dp.choose(
        ...     examples.options(), people=people, participants=500, trust="none", reward_range=(0, 1)
        ... )
        >>> found.best, found.participants
        ('a', 500)
        >>> [row["option"] for row in found.to_rows()]
        ['a', 'b']
    """

    lead: Lead
    guarantee: Guarantee | None
    simulated: bool
    trust: str
    state: State = field(compare=False)
    stopped: str = ""

    @property
    def best(self) -> str:
        """The name of the best option, by the estimate from all phases together."""
        return self.option

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of its mean reward."""
        return self.low, self.high

    @property
    def privacy(self) -> str:
        """The privacy guarantee as one line of text."""
        if self.simulated and TRUST_MODELS[self.trust].private:
            return f"simulated noise (trust {self.trust}): no guarantee"
        if self.guarantee is None:
            return "no privacy was requested"
        found = self.guarantee
        return f"({found.epsilon:g}, {found.delta:.3g})-DP, trust {found.trust}; needs: {found.needs}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What is printed about the result: pairs of a short name and a text."""
        stopped = [("stopped", self.stopped)] if self.stopped else []
        asked = f"{self.participants:,} people about {len(self.options)} options"
        return [*super().lines, ("privacy", self.privacy), *stopped, ("asked", asked)]

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10} {text}" for name, text in self.lines)

    def _repr_html_(self) -> str:
        return _page.summary(self) + _page.option_table(self, most=10)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per option, the highest estimate first."""
        return [asdict(one) for one in self.options]

    def to_frame(self) -> Any:
        """Return `to_rows` as a data frame: of pandas if it is installed, else of Polars.

        Raises:
            InvalidValue: Neither is installed.
        """
        for name in ("pandas", "polars"):
            if installed(name):
                make: Callable[[list[dict[str, Any]]], Any] = import_module(name).DataFrame
                return make(self.to_rows())
        raise InvalidValue(
            "to_frame", "neither pandas nor Polars", "one of them installed; to_rows() needs neither"
        )

    def plot(self, path: str | Path | None = None, *, most: int = 20) -> Figure:
        """Draw the intervals of the options with the highest estimates.

        Args:
            path: Where the figure is written, if given; the suffix chooses the format.
            most: How many options are drawn.

        Returns:
            A matplotlib figure.

        Raises:
            InvalidValue: matplotlib is not installed, or `most` is less than 1.
        """
        check_matplotlib(plot="no matplotlib")
        from dpbandits.choosing._drawing import draw

        figure = draw(self, most)
        if path is not None:
            figure.savefig(Path(path))
        return figure

    def save(self, path: str | Path) -> None:
        """Write the result, a drawing and all tables to one HTML file, which refers to no other file.

        Args:
            path: A path that ends in .html or .htm.

        Raises:
            InvalidValue: The path has another ending.
        """
        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            raise InvalidValue("path", target, "a path that ends in .html or .htm")
        target.write_text(_page.page(self), encoding="utf-8")
