"""Fixtures for pytest, found by its entry point: assert_fits, assert_collectives, assert_verifies.

They are the functions of gshard.testing, with the chip of `--gshard-chip`, or of gshard_chip in pytest's configuration, where a
test names none.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import pytest

from . import testing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --gshard-chip and its line in the configuration."""
    parser.getgroup("gshard").addoption("--gshard-chip", default=None, metavar="NAME",
                                        help="chip of assert_fits and assert_collectives, such as tpu-v5p")
    parser.addini("gshard_chip", "chip of assert_fits and assert_collectives, such as tpu-v5p", default=None)


def _with_chip(function: Callable[..., Any], config: pytest.Config) -> Callable[..., Any]:
    chip: str | None = config.getoption("--gshard-chip") or config.getini("gshard_chip") or None

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        if chip is not None and options.get("chip") is None:
            options["chip"] = chip
        return function(*args, **options)

    return call


@pytest.fixture
def assert_fits(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """gshard.testing.assert_fits."""
    return _with_chip(testing.assert_fits, request.config)


@pytest.fixture
def assert_collectives(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """gshard.testing.assert_collectives."""
    return _with_chip(testing.assert_collectives, request.config)


@pytest.fixture
def assert_verifies() -> Callable[..., Any]:
    """gshard.testing.assert_verifies."""
    return testing.assert_verifies
