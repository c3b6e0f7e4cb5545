"""The fuzzer itself: it sees defects, counts them, and repeats them."""

import pytest

from tests.fuzz.conftest import Fuzzer


def test_defects_are_counted_and_can_be_seen_again():
    seen, recorded = [], []

    def attack(rng):
        seen.append(rng.integers(1000))
        assert seen[-1] != seen[0], "a defect"

    with pytest.raises(pytest.fail.Exception, match=r"(?s)subject: 1 of 6 .*--fuzz-seed 3 --fuzz-case 0\n.*a defect"):
        Fuzzer(3, 2, None, lambda *pair: recorded.append(pair)).run("subject", attack, cases=3)
    assert recorded == [("fuzz", ("subject", 6, 1))]
    first = seen.copy()
    with pytest.raises(pytest.fail.Exception, match="1 of 1"):
        Fuzzer(3, 2, 0, lambda *pair: None).run("subject", attack, cases=3)
    assert seen[-1] == first[0]
