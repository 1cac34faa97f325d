"""Steps by number, as training prints them: a step is a batch, counted from 1 and on through the epochs."""

from __future__ import annotations

from bisect import bisect_right

from outofcore.checks import refuse, whole


class Steps:
    """Some steps and ranges of steps, of which both ends are included; raises ParamsError if they are none."""

    def __init__(self, name: str, value: object) -> None:
        if not isinstance(value, list | tuple):
            refuse(name, "a list of steps and ranges of them, such as [340, (1000, 1020)]", value)
        self._ranges: list[tuple[int, int]] = []
        for item in value:
            first, last = item if isinstance(item, list | tuple) and len(item) == 2 else (item, item)
            if whole(name, first, 1) > whole(name, last, 1):
                refuse(name, "a range from its first step to its last", item)
            self._ranges.append((first, last))
        self._ranges.sort()
        self._firsts = [first for first, _ in self._ranges]
        self._most = [max(last for _, last in self._ranges[: number + 1]) for number in range(len(self._ranges))]

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, step: int) -> bool:
        place = bisect_right(self._firsts, step)
        return place > 0 and step <= self._most[place - 1]

    def until(self, step: int) -> list[list[int]]:
        """The ranges up to a step, each as its first and last, apart from each other."""
        ranges: list[list[int]] = []
        for first, last in self._ranges:
            if first > step:
                break
            if ranges and first <= ranges[-1][1] + 1:
                ranges[-1][1] = max(ranges[-1][1], min(last, step))
            else:
                ranges.append([first, min(last, step)])
        return ranges
