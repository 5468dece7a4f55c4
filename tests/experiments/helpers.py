"""A small, fast experiment, and a parser of the report."""

from __future__ import annotations

from html.parser import HTMLParser

from dpbandits.experiments import Check, Curve, Experiment, Findings, Panel, Results, Scale, Table, Work
from dpbandits.experiments._curves import moments
from dpbandits.experiments._jobs import LinUCB
from dpbandits.experiments._statistics import regrets
from dpbandits.simulation import Setting, Simulated

SMALL = Setting.paper(actions=30, dimension=3, horizon=400)


def works(scale: Scale) -> list[Work]:
    return [
        Work(label="DPE", job=Simulated(setting=SMALL), runs=scale.runs),
        Work(label="LinUCB", job=LinUCB(setting=SMALL), runs=scale.runs),
    ]


def examine(results: Results, scale: Scale) -> Findings:
    columns = [regrets(results.of(work)) for work in works(scale)]
    rows = tuple(
        (work.label, float(values.mean())) for work, values in zip(works(scale), columns, strict=True)
    )
    curve: Curve = moments("regret & <more>", (1.0, 2.0), columns)
    return Findings(
        tables=(Table(name="regret", title="Regret", columns=("algorithm", "regret"), rows=rows),),
        panels=(Panel(title="small", x_label="x", y_label="y", curves=(curve,)),),
        checks=(
            Check(statement='1 < 2 & "so on"', verdict="agrees", found="<b>yes</b>", scope="tight"),
            Check(statement="never", verdict="differs", found="no", why="`because`", scope="paper"),
            scale.check("on average", True, "so", scope="tight"),
        ),
    )


EXPERIMENT = Experiment(
    name="small",
    title="Small <experiment>",
    statement="Little is said & less is meant.",
    choices=("`everything`",),
    works=works,
    examine=examine,
)

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects tags in order; an end tag that does not close the last open tag is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attrs)
        self.identifiers += [value for name, value in attrs if name == "id" and value]
        self.references += [
            str(found[name]) for name in ("src", "href", "srcset", "data", "action") if name in found
        ]
        assert tag not in {"script", "link", "iframe", "object", "embed", "base"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
