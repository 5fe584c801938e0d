"""The window over the latest answers."""

from __future__ import annotations

from router.service.recent import RecentAnswers


def test_the_oldest_are_forgotten() -> None:
    """Only as many as are kept are counted, the latest of them first."""
    recent = RecentAnswers(kept=3)
    for tool in ("a", "b", "c", "c", ""):
        recent.add("one", tool)
    assert recent.count(9) == {"one": {"c": 2, "": 1}}
    assert recent.count(2) == {"one": {"c": 1, "": 1}}
    assert recent.count(0) == {}


def test_catalogs_are_told_apart() -> None:
    """The same name on another catalog is another tool."""
    recent = RecentAnswers(kept=3)
    recent.add("one", "a")
    recent.add("two", "a")
    assert recent.count(3) == {"one": {"a": 1}, "two": {"a": 1}}


def test_names_that_left_the_window_are_let_go() -> None:
    """However many different ones there were."""
    recent = RecentAnswers(kept=10)
    for number in range(5_000):
        recent.add("one", str(number))
    assert len(recent._known) <= 2 * 10 + 1001
    assert recent.count(10)["one"].keys() == {str(number) for number in range(4_990, 5_000)}
