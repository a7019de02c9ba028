"""A sweep that was not disturbed, to compare others with."""

import pytest

from tests.sweeps import tiny_sweeps


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    printed, code = tiny_sweeps.finish(
        tiny_sweeps.start("sweep", tiny_sweeps.write_experiment(folder), "--out", folder / "out")
    )
    assert code == 0, printed
    return tiny_sweeps.results(folder / "out")
