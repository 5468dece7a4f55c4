"""The section [options] of a study file: what it means, and one clear line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.options import Kernel, Number, Options, Ordered
from dpbandits.protocol import Confirmation, FitTest, Safeguard
from dpbandits.service.config import TomlFile, read_stored_study, study_of

TABLE = """name,price,gigabytes,contract,network
basic,10,5,none,red
plus,15,20,1 year,red
max,29,100,2 years,blue
mini,5,1,none,blue
family,35,100,1 year,red
travel,25,50,2 years,blue
night,8,10,none,red
student,9,20,none,blue
"""
OPTIONS = """[options]
table = "options.csv"
label = "name"
features = ["price", "gigabytes", "contract", "network"]
current = "basic"
log = ["gigabytes"]
squared = ["price"]
ordered = { contract = ["none", "1 year", "2 years"] }
baseline = { network = "red" }
"""
REST = """[study]
horizon = 20000
[privacy]
trust = "central"
epsilon = 20.0
delta = 1e-3
[schedule]
cohorts = [6, 10]
first_length = 60
growth = 8.0
[storage]
url = "sqlite:///study.sqlite"
"""


def _file(folder: Path, options: str = OPTIONS, rest: str = REST, table: str = TABLE) -> Path:
    (folder / "options.csv").write_text(table, encoding="utf-8")
    (folder / "study.toml").write_text(options + rest, encoding="utf-8")
    return folder / "study.toml"


def test_a_table_becomes_the_same_options_as_in_python(tmp_path: Path) -> None:
    found = read_stored_study(_file(tmp_path))
    expected = Options.from_table(
        tmp_path / "options.csv",
        label="name",
        features={
            "price": Number(squared=True),
            "gigabytes": Number(log=True),
            "contract": Ordered(["none", "1 year", "2 years"]),
            "network": None,
        },
        current="basic",
    )
    assert found.options == expected
    assert found.study.actions == expected.actions
    assert found.study.options == expected.digest


def test_the_table_alone_is_enough(tmp_path: Path) -> None:
    found = read_stored_study(_file(tmp_path, '[options]\ntable = "options.csv"\nfeatures = ["price"]\n'))
    assert found.options == Options.from_table(tmp_path / "options.csv", features=["price"])


def test_a_kernel_is_the_same_as_in_python(tmp_path: Path) -> None:
    section = '[options]\ntable = "options.csv"\nlog = ["gigabytes"]\nkernel = "matern"\n'
    found = read_stored_study(_file(tmp_path, section + "length_scale = 1.5\nrank = 4\n"))
    expected = Options.from_table(
        tmp_path / "options.csv",
        features={"price": None, "gigabytes": Number(log=True), "contract": None, "network": None},
        kernel=Kernel(shape="matern", length_scale=1.5, rank=4),
    )
    assert found.options == expected
    assert found.study.options == expected.digest
    assert study_of(TomlFile(_file(tmp_path, section + "rank = 4\n"))).digest != found.study.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("basic,10", "basis,10"),
        ("basic,10", "basic,11"),
        ("mini,5,1,none,blue\nfamily,35,100,1 year,red", "family,5,1,none,blue\nmini,35,100,1 year,red"),
    ],
    ids=["a name", "a value", "two names swapped"],
)
def test_another_table_is_another_study(tmp_path: Path, old: str, new: str) -> None:
    path = _file(tmp_path, OPTIONS.replace('current = "basic"\n', ""))
    before = study_of(TomlFile(path)).digest
    assert old in TABLE
    _file(tmp_path, OPTIONS.replace('current = "basic"\n', ""), table=TABLE.replace(old, new))
    assert study_of(TomlFile(path)).digest != before


def test_the_option_in_use_today_is_a_part_of_the_study(tmp_path: Path) -> None:
    before = study_of(TomlFile(_file(tmp_path))).digest
    assert study_of(TomlFile(_file(tmp_path, OPTIONS.replace('"basic"', '"plus"')))).digest != before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('table = "options.csv"', "table = 3", "options.table: got 3, expected a string"),
        ('table = "options.csv"', 'table = "no.csv"', "no.csv, expected an existing file that ends in .csv"),
        ('label = "name"', 'label = "nam"', "options.label: got 'nam', expected a column of the table"),
        ('label = "name"', "label = 1", "options.label: got 1, expected the name of a column"),
        ('label = "name"', "rank = 3", "options.rank: got 3, expected a `kernel` as well"),
        ('label = "name"', 'kernel = "cubic"', "options.kernel: got 'cubic', expected one of rbf, matern"),
        (
            'features = ["price", ',
            'features = ["prize", ',
            "options.features: got 'prize', expected a column of",
        ),
        ('features = ["price", "gig', 'features = ["price", "price", "gig', "'price' twice, expected each"),
        ("features = [", "features = 3 # [", "options.features: got 3, expected a list of columns"),
        ('current = "basic"', 'current = "basik"', "options.current: got 'basik', expected one of 'basic'"),
        ('log = ["gigabytes"]', 'log = "gigabytes"', "options.log: got 'gigabytes', expected a list of"),
        ('log = ["gigabytes"]', 'log = ["giga"]', "options.log: got 'giga', expected a column that is used"),
        (
            'log = ["gigabytes"]',
            'log = ["network"]',
            "options.baseline: got 'network', expected one kind per",
        ),
        ('ordered = { contract = ["none", ', 'ordered = { contract = ["never", ', "expected one of 'never'"),
        ("ordered = { contract", 'ordered = ["contract"] # {', "expected a table such as { size"),
        (
            'baseline = { network = "red" }',
            'baseline = { network = "grey" }',
            "'grey', expected one of 'red'",
        ),
        ('baseline = { network = "red" }', 'steps = ["network"]', "expected a column that has levels in"),
        ('baseline = { network = "red" }', 'interactions = ["price"]', 'expected "all", or a list of pairs'),
        (
            'baseline = { network = "red" }',
            'baselin = "red"',
            "options.baselin: got baselin, expected one of",
        ),
        ("horizon = 20000", 'horizon = 20000\nactions = "a.csv"', "expected none: the rows of the table in"),
    ],
)
def test_errors_have_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OPTIONS + REST
    path = _file(tmp_path, OPTIONS.replace(old, new), REST.replace(old, new))
    with pytest.raises(InvalidValue) as caught:
        read_stored_study(path)
    told = str(caught.value)
    assert message in told
    assert "\n" not in told
    assert f"{path}, line " in told


def test_a_wrong_cell_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path, table=TABLE.replace("mini,5,1", "mini,5,0"))
    with pytest.raises(InvalidValue, match=r"line 2, options.gigabytes, row 4 \(mini\): got .*logarithm"):
        read_stored_study(path)


def test_a_study_file_without_options_needs_actions(tmp_path: Path) -> None:
    path = _file(tmp_path, options="")
    with pytest.raises(InvalidValue, match=r"study.actions: got None, expected a string"):
        read_stored_study(path)


PLANNED = REST.replace("cohorts = [6, 10]\nfirst_length = 60\ngrowth = 8.0\n", "participants = 2000\n")


def test_participants_of_a_confirmation_are_reserved(tmp_path: Path) -> None:
    found = read_stored_study(_file(tmp_path, rest=PLANNED)).study
    assert found.confirmation == Confirmation(current=0, cohort=400, plays=32)
    assert found.schedule.cohorts == (1600,)  # what is left is planned at the first start
    limited = read_stored_study(
        _file(tmp_path, rest=PLANNED.replace("[privacy]", "population = 2000\n[privacy]"))
    )
    assert limited.study.confirmation == found.confirmation  # everybody is asked, and nobody twice
    off = read_stored_study(_file(tmp_path, rest=PLANNED + "[confirmation]\nenabled = false\n")).study
    assert (off.confirmation, off.schedule.cohorts) == (None, (2000,))
    assert read_stored_study(_file(tmp_path)).study.confirmation is None  # its cohorts are all listed
    section = "[confirmation]\ncohort = 20\nfinalists = 2\n"
    given = read_stored_study(_file(tmp_path, rest=REST + section)).study.confirmation
    assert given == Confirmation(current=0, cohort=20, plays=32, finalists=2)


def test_the_variance_is_in_units_of_the_reward(tmp_path: Path) -> None:
    given = "horizon = 20000\nreward_range = [0, 10]\nreward_variance = 0.5\n"
    found = read_stored_study(_file(tmp_path, rest=REST.replace("horizon = 20000\n", given))).study
    assert found.reward_variance == pytest.approx(0.5 / 25)


def test_participants_of_a_fit_test_are_reserved_if_it_is_asked_for(tmp_path: Path) -> None:
    rest = PLANNED.replace("participants = 2000", "participants = 20000")
    found = read_stored_study(_file(tmp_path, rest=rest + "[fit_test]\nnotice = 0.1\nplays = 50\n")).study
    assert found.fit_test is not None
    assert found.fit_test.plays == 50
    assert found.schedule.cohorts == (16_000 - found.fit_test.cohort,)
    given = read_stored_study(_file(tmp_path, rest=REST + "[fit_test]\ncohort = 9\n")).study
    assert given.fit_test == FitTest(cohort=9)
    with pytest.raises(InvalidValue, match=r"notice: got 0.1, expected none, if"):
        read_stored_study(_file(tmp_path, rest=REST + "[fit_test]\nnotice = 0.1\n"))


GUARDED = REST.replace("horizon", "confidence = 0.9\nreward_range = [0, 10]\nhorizon")


def test_a_safeguard_is_in_units_of_the_reward(tmp_path: Path) -> None:
    section = "[safeguard]\nmargin = 0.5\nallowance = 1\n"
    found = read_stored_study(_file(tmp_path, rest=GUARDED + section)).study
    assert found.safeguard == Safeguard(current=0, margin=0.1, allowance=0.2)
    (tmp_path / "actions.csv").write_text("0.9,0\n0,0.9\n0.6,0.6\n")
    numbered = GUARDED.replace("[study]", '[study]\nactions = "actions.csv"')
    found = read_stored_study(_file(tmp_path, "", numbered + "[safeguard]\nmargin = 0\ncurrent = 2\n")).study
    assert found.safeguard == Safeguard(current=2, margin=0.0)


@pytest.mark.parametrize(
    ("rest", "section", "message"),
    [
        (REST, "margin = 1", "confidence: got None, expected a number such as 0.95"),
        (GUARDED, "", "safeguard: got no limit, expected a margin"),
        (GUARDED, "allowance = 0", "allowance: got 0, expected a finite number > 0"),
        (GUARDED, 'margin = "small"', "margin: got small, expected a finite number >= 0"),
        (GUARDED, "margin = 1\ncurrent = 2", "current: got 2, expected none: [options] has"),
        (GUARDED, "loss = 1", "safeguard.loss: got loss, expected one of current, margin, allowance"),
    ],
)
def test_a_wrong_safeguard_is_one_clear_line(tmp_path: Path, rest: str, section: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_stored_study(_file(tmp_path, rest=f"{rest}[safeguard]\n{section}\n"))
    assert message in str(caught.value)


def test_a_safeguard_needs_an_option_in_use_today(tmp_path: Path) -> None:
    unnamed = OPTIONS.replace('current = "basic"\n', "")
    with pytest.raises(InvalidValue, match="current: got None, expected the option in use today"):
        read_stored_study(_file(tmp_path, unnamed, GUARDED + "[safeguard]\nmargin = 1\n"))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("width = 0.02", "confirmation.cohort: got None, expected a number of clients"),
        ("cohort = 20\nwidth = 0.1", "width: got 0.1, expected none, if cohort is given"),
        ("cohort = 0", "cohort: got 0, expected a whole number >= 1"),
        ('cohort = 20\nassumes = "linear"', "assumes: got 'linear', expected one of spread, range"),
        ("enabled = false\ncohort = 20", "expected enabled = true, and `current`"),
    ],
)
def test_a_wrong_confirmation_is_one_clear_line(tmp_path: Path, section: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_stored_study(_file(tmp_path, rest=REST + f"[confirmation]\n{section}\n"))
    assert message in str(caught.value)
