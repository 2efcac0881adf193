"""What the tests share: one Ray cluster for the session. A test's own modules end with the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    from opentinker.scheduler.cluster import Cluster

    with Cluster(num_cpus=2) as running:
        yield running


@pytest.fixture(autouse=True)
def _own_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A test's `sys.path` and the modules it wrote end with it: two tests may use one name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(written):
            del sys.modules[name]
