"""`refil list`."""

import pytest

from refil import plugins


def test_all_kinds_of_plug_ins_are_listed(refil):
    listed, title = {}, ""
    for line in refil("list")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            title = line[:-1]
        else:
            listed.setdefault(title, {})[line.split()[0]] = line.split()[1:]
    assert set(listed) == {"methods", "environments", "figures", "experiments"}
    for title, package in (
        ("methods", "methods"),
        ("environments", "envs"),
        ("figures", "plots"),
        ("experiments", "experiments"),
    ):
        assert list(listed[title]) == list(plugins.names(f"refil.{package}"))
        assert all(listed[title].values()), "every line describes its plug-in"


@pytest.mark.slow
def test_methods_are_printed_as_the_papers_table_with_parameter_counts(refil):
    out = refil("list", "--methods")[0]
    rows = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in out.splitlines() if "│" in line
    }
    assert rows["refil"] == ["REFIL", "yes", "attention", "QMIX", "106,574", "306,304"]
    assert rows["qmix_mean_pooling"] == ["QMIX (Mean Pooling)", "no", "mean pooling", "QMIX", "73,934", "175,744"]
    assert len(rows) >= 14
