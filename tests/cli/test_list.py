"""`refil list`."""

import pytest


def test_all_kinds_of_plug_ins_are_listed(refil):
    text = refil("list")[0]
    for name in ("refil", "qmix_attention", "vdn_attention", "refil_vdn", "refil_fixed_oracle", "group_matching", "table_1"):
        assert name in text


@pytest.mark.slow
def test_methods_are_printed_as_the_papers_table_with_parameter_counts(refil):
    out = refil("list", "--methods")[0]
    rows = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in out.splitlines() if "│" in line
    }
    assert rows["refil"] == ["REFIL", "yes", "attention", "QMIX", "106,574", "306,304"]
    assert rows["qmix_mean_pooling"] == ["QMIX (Mean Pooling)", "no", "mean pooling", "QMIX", "73,934", "175,744"]
    assert len(rows) >= 14
