"""Where games begin, in slow and plain Python: the oracle of the compiled scanner."""

from __future__ import annotations

import re

TAG = re.compile(rb'\[([A-Za-z0-9_]{1,255})(?=[ \t\v\f\0\x1a\r\n"\]])')
QUOTED = re.compile(rb'[ \t\v\f\0\x1a]*"')
CLOSE = re.compile(rb'"[ \t\v\f\0\x1a]*\]')
END_OF_LINE = re.compile(rb"[\r\n]|\Z")
WORD = re.compile(rb"\*|[^ \t\v\f\0\x1a\r\n{}();$*]+")
NAG = re.compile(rb"\$[0-9]*")
MOVE_ONE = re.compile(rb"1\.(?:[ \t\v\f\0\x1a][^.]|[^. \t\v\f\0\x1a])", re.DOTALL)
RESULTS = {b"1-0", b"0-1", b"1/2-1/2", b"*"}


def game_starts(data: bytes) -> list[int]:
    starts: list[int] = []
    phase, depth, moved, line_start, comment = "outside", 0, False, True, False
    names: list[bytes] = []
    remark = False
    i = 0

    def begin(name: bytes | None) -> None:
        nonlocal moved, remark, names
        starts.append(i)
        moved, remark = False, False
        names = [] if name is None else [name]

    while i < len(data):
        c = data[i : i + 1]
        tag = TAG.match(data, i) if line_start else None
        quoted = QUOTED.match(data, tag.end()) if tag else None
        if comment and not (tag and quoted and tag[1] == b"Event"):
            comment = c != b"}"
            line_start = c in b"\r\n"
            i += 1
            continue
        comment = False
        if phase == "outside":  # whatever comes before the first game
            line_start, tag = True, TAG.match(data, i)
            quoted = QUOTED.match(data, tag.end()) if tag else None
        if c in b" \t\v\f\0\x1a\r\n":
            line_start = line_start or c in b"\r\n"
            i += 1
        elif data.startswith(b"\xef\xbb\xbf", i):
            i += 3
        elif c == b";" or (c == b"%" and line_start):
            remark = True
            i = END_OF_LINE.search(data, i).start()
        elif c == b"{":
            comment, remark, line_start = True, True, False
            i += 1
        elif tag and (quoted or tag[1] == b"Event" or phase in ("outside", "tags")):
            name = tag[1]
            if phase != "tags" or name == names[0] or (name == b"Event" and (b"Event" in names or remark)):
                depth = 0
                begin(name)
            names.append(name)
            phase = "tags"
            line_end = END_OF_LINE.search(data, i).start()
            close = CLOSE.search(data, quoted.end(), line_end) if quoted else None
            i = close.end() if close else line_end
            line_start = True
        else:
            first_of_line, line_start = line_start, False
            if phase == "outside":
                begin(None)
            if phase != "over":
                phase = "moves"
            if c in b"()":
                depth = depth + moved if c == b"(" else max(depth - 1, 0)
                i += 1
            elif c == b"$":
                i = NAG.match(data, i).end()
            elif c == b"}":
                i += 1
            else:
                word = WORD.match(data, i)[0]
                if depth == 0:
                    if phase == "over":
                        if (
                            word not in RESULTS
                            and word[:1] not in b"[%"
                            and re.search(rb"[0-9A-Za-z@\x80-\xff]|--", word)
                        ):
                            begin(None)
                            phase = "moves"
                    elif word in RESULTS:
                        phase = "over"
                    elif first_of_line and moved and MOVE_ONE.match(data, i):
                        begin(None)
                    moved = moved or any(byte >= ord("A") for byte in word)
                i += len(word)
    return starts
