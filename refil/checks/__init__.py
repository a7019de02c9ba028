"""Property checks of environments and methods: `refil check` runs them on any plug-in, and the tests on those of the package.

A check is a function that raises `refil.checks.report.CheckFailed` with a sentence, and otherwise returns what it found.
"""
