"""What the tests share: one Ray cluster for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    from opentinker.scheduler.cluster import Cluster

    with Cluster(num_cpus=2) as running:
        yield running
