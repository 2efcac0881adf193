"""The one version that an engine with whole weights of its own serves, and which weights fit it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from opentinker.errors import EngineError
from opentinker.types import FullWeights, PolicyVersion, SampleRequest, Weights

Shapes = Mapping[str, tuple[int, ...]]
"""The tensors that make up a whole model: its `state_dict` without what is tied to another."""


class WholeTable:
    """Which version of `policy` is served; changed by the engine's thread alone."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._served: int | None = None
        self._replaced: set[int] = set()

    def check_policy(self, policy: str) -> None:
        """EngineError for any other than the one."""
        if policy != self._policy:
            raise EngineError(
                f"policy {policy!r} is not served here; known: {self._policy!r} alone, which has "
                "this engine for its whole weights"
            )

    def check_free(self, version: PolicyVersion) -> None:
        """EngineError where `version` is what is served."""
        if version.version == self._served:
            raise EngineError(
                f"policy {version.policy!r} version {version.version} is published already; "
                "a version's weights never change"
            )

    def serve(self, version: PolicyVersion) -> None:
        """It takes the place of the one before."""
        if self._served is not None:
            self._replaced.add(self._served)
        self._replaced.discard(version.version)
        self._served = version.version

    def find(self, request: SampleRequest) -> int:
        """The version that answers `request`; EngineError where none does."""
        self.check_policy(request.policy)
        if self._served is None or request.version not in (None, self._served):
            raise self._unknown(request.version)
        return self._served

    def replaced(self, version: PolicyVersion) -> bool:
        """Whether it was served once and another is, or none."""
        return version.policy == self._policy and version.version in self._replaced

    def retire(self, version: PolicyVersion) -> None:
        """Serve it no more; EngineError where it never was served."""
        self.check_policy(version.policy)
        if version.version == self._served:
            self._replaced.add(version.version)
            self._served = None
        elif not self.replaced(version):
            raise self._unknown(version.version)

    def versions(self) -> list[PolicyVersion]:
        served = self._served
        return [] if served is None else [PolicyVersion(self._policy, served)]

    def _unknown(self, number: int | None) -> EngineError:
        who = f"policy {self._policy!r}"
        if self._served is None:
            missing = "version" if number is None else f"version {number}"
            return EngineError(f"{who} has no {missing} here; none is published")
        if number in self._replaced:
            return EngineError(
                f"{who} version {number} is served no more; version {self._served} took its place"
            )
        return EngineError(f"{who} has no version {number} here; published: {self._served}")


def shapes_of(network: Any) -> Shapes:
    """The names and shapes that `FullWeights` of a transformers model have."""
    tied = getattr(network, "all_tied_weights_keys", None) or {}
    return {
        name: tuple(tensor.shape)
        for name, tensor in network.state_dict().items()
        if name not in tied
    }


def check_whole(version: PolicyVersion, weights: Weights, shapes: Shapes) -> FullWeights:
    """The weights again; EngineError where they are not finite ones of exactly these shapes."""
    who = f"policy {version.policy!r} version {version.version}"
    if not isinstance(weights, FullWeights):
        raise EngineError(f"{who}: this engine serves whole weights, and was given an adapter")
    fault = ""
    for name in shapes.keys() - weights.tensors.keys():
        fault = f"the model's {name!r} is not among them"
    for name, tensor in weights.tensors.items():
        if fault:
            break
        if name not in shapes:
            near = difflib.get_close_matches(name, shapes, n=1)
            fault = f"{name!r} is no weight of the model" + (f"; near: {near[0]!r}" if near else "")
        elif tensor.shape != shapes[name]:
            fault = f"{name!r} has shape {tensor.shape}, the model's is {shapes[name]}"
        elif not np.isfinite(tensor).all():
            fault = f"{name!r} holds values that are not finite"
    if fault:
        raise EngineError(f"{who}: {fault}")
    return weights
