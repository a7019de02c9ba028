"""The figure of lambda, from made-up metrics."""

import numpy as np

from refil import experiments
from refil.experiments import figure_4, figure_5_lambda
from tests.plots.made_up import constant


def test_five_values_of_lambda_run_on_3_8sz():
    runs = figure_5_lambda.runs()
    assert {made.env.name for made in runs.values()} == {"3-8sz"}
    weights = {label: getattr(made.method.options, "imagined_weight", 0) for label, made in runs.items()}
    assert weights == figure_5_lambda.WEIGHTS
    assert {(made.train.steps, made.train.seeds) for made in runs.values()} == {(3_000_000, 3)}


def test_two_runs_are_those_of_figure_4():
    shared = figure_5_lambda.runs().keys() & figure_4.runs().keys()
    assert {figure_5_lambda.WEIGHTS[label] for label in shared} == {0, 0.5}
    assert all(figure_5_lambda.runs()[label] == figure_4.runs()[label] for label in shared)


def test_missing_values_are_named(tmp_path):
    rates = {0.0: [0.2, 0.3, 0.4], 0.5: [0.5, 0.6, 0.7]}
    done = {
        label: constant(tmp_path / experiments.folder_name(label), rates[weight], figure_5_lambda.runs()[label])
        for label, weight in figure_5_lambda.WEIGHTS.items()
        if weight in rates
    }
    (axes,) = figure_5_lambda.draw({label: [run] for label, run in done.items()}).axes
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), [30, np.nan, 60, np.nan, np.nan])
    assert [text.get_position()[0] for text in axes.texts if text.get_text() == "not run yet"] == [0.25, 0.75, 1.0]
    assert figure_5_lambda.report(done, tmp_path).exists()
    rows = (tmp_path / "figure_5_lambda.md").read_text().splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| lambda 0", "| lambda 0.5"]
