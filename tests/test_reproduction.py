"""The page on the paper's claims: its tables equal those computed from the published runs."""

import pytest

from benchmarks import reproduction


@pytest.fixture(scope="module")
def tables():
    return reproduction.tables()


def test_the_page_has_the_computed_tables(tables):
    page = reproduction.PAGE.read_text()
    for name, lines in tables.items():
        shown = page.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0]
        assert shown.splitlines() == lines, "python benchmarks/reproduction.py --write computes the tables anew"


def test_every_row_has_a_verdict_and_raw_data(tables):
    for row in tables["claims"][2:]:
        *_, verdict, _, data, _ = row.split("|")
        assert any(word in verdict for word in ("holds", "does not hold", "not clear", "cannot be told"))
        assert (reproduction.RESULTS / data.strip().partition("]")[0].removeprefix("[")).is_dir()


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([0.5, 0.6, 0.7], [0.1, 0.2, 0.3], reproduction.HOLDS),
        ([0.5, 0.6, 0.2], [0.1, 0.2, 0.3], reproduction.UNCLEAR),
        ([0.1, 0.2, 0.3], [0.5, 0.6, 0.7], reproduction.FAILS),
        ([0.1 * n for n in range(8)], [0.1 * n for n in range(8)], reproduction.UNCLEAR),
        ([0.1 * n + 0.3 for n in range(7)], [0.1 * n for n in range(7)], reproduction.HOLDS),
    ],
)
def test_verdicts_follow_the_rule_of_the_page(tmp_path, ours, theirs, verdict):
    from tests.plots.made_up import constant

    runs = [[constant(tmp_path / str(n), values)] for n, values in enumerate((ours, theirs))]
    assert reproduction._compared(*runs, "theirs")[1] == verdict
