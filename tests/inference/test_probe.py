from __future__ import annotations

import pytest

from opentinker.errors import PublishError
from opentinker.inference.probe import compare
from opentinker.types import Completion, SampleRequest, SamplingParams

REQUEST = SampleRequest("alice", (3,), SamplingParams(), version=4)
ANSWER = Completion((5, 6), (-0.5, -2.0), 4, "length")


def test_the_largest_difference_is_returned() -> None:
    scores = [[-0.5, -2.0], [-0.5625, -2.0]]
    assert compare([(REQUEST, ANSWER)] * 2, scores, 0.125) == 0.0625


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([-0.5, -2.5], r"'alice' version 4 does not answer .* off by 0.5, allowed is 0.125"),
        ([float("nan"), -2.0], "off by nan"),
        ([-0.5], "the engine gave 2 logprobs, the learner 1"),
    ],
)
def test_a_mismatch_names_policy_version_and_figure(scores: list[float], message: str) -> None:
    with pytest.raises(PublishError, match=message):
        compare([(REQUEST, ANSWER)], [scores], 0.125)


def test_an_answer_of_another_version_is_a_mismatch() -> None:
    other = Completion(ANSWER.tokens, ANSWER.logprobs, 3, "length")
    with pytest.raises(PublishError, match="version 3 answered where version 4 was asked for"):
        compare([(REQUEST, other)], [list(ANSWER.logprobs)], 0.125)
