"""Where games begin, in slow and plain Python: the oracle of the compiled scanner."""

from __future__ import annotations

import re

BLANK = rb"[ \t\v\f\0\x1a]"
TAG = re.compile(rb'\[([A-Za-z0-9_+#=:./-]{1,255})(?=[ \t\v\f\0\x1a\r\n"\]])')
QUOTED = re.compile(BLANK + rb'*"')
CLOSE = re.compile(rb'"' + BLANK + rb"*\]")
END_OF_LINE = re.compile(rb"[\r\n]|\Z")
WORD = re.compile(rb"\*|[^ \t\v\f\0\x1a\r\n{}();$*]+")
NAG = re.compile(rb"\$[0-9]*")
MOVE_ONE = re.compile(rb"1\.(?:[ \t\v\f\0\x1a][^.]|[^. \t\v\f\0\x1a])", re.DOTALL)
NUMBER = re.compile(rb"[1-9][0-9]{0,3}(?:\.|\Z)")
DASH = rb"(?:-|[\x96\x97]|\xe2\x80[\x90-\x95]|\xe2\x88\x92)"
HALF = rb"(?:1/2|\xc2\xbd|\xbd)"
RESULT = re.compile(rb"1" + DASH + rb"0|0" + DASH + rb"1|" + HALF + DASH + HALF + rb"|\*")


def game_starts(data: bytes) -> list[int]:
    starts: list[int] = []
    phase, depth, comment, line_start = "outside", 0, False, True
    i = 0

    def begin(name: bytes | None) -> None:
        nonlocal moved, only_moves, words, enough, numbered, closed, names, tagged
        starts.append(i)
        moved, only_moves, words, enough, numbered, closed, tagged = False, True, 0, False, False, False, False
        names = [name]

    moved, only_moves, words, enough, numbered, closed, tagged = False, True, 0, False, False, False, False
    names: list[bytes | None] = []
    while i < len(data):
        c = data[i : i + 1]
        line_start = line_start or (phase == "outside" and not comment)  # whatever comes before the first game
        tag = TAG.match(data, i) if line_start else None
        quoted = QUOTED.match(data, tag.end()) if tag else None
        broken = comment and bool(tag and quoted and tag[1] == b"Event")
        if comment and not broken:
            comment = c != b"}"
            line_start = c in b"\r\n"
            i += 1
            continue
        comment = False
        if c in b" \t\v\f\0\x1a\r\n":
            line_start = line_start or c in b"\r\n"
            i += 1
        elif data.startswith(b"\xef\xbb\xbf", i):
            i += 3
        elif c == b";" or (c == b"%" and line_start):
            i = END_OF_LINE.search(data, i).start()
        elif c == b"{":
            comment, line_start = True, False
            i += 1
        elif c == b"[" and line_start and (quoted or (tag and tag[1] == b"Event") or phase != "moves"):
            name = tag[1] if tag else None
            finished = phase == "over" and enough and (numbered or only_moves)
            sure = phase == "outside" or not tagged or finished or (names[:1] == [name] and tag)
            if sure or (name == b"Event" and (b"Event" in names or numbered or closed or broken)):
                depth = 0
                begin(name)
            elif name:
                names.append(name)
            tagged, closed, phase, line_start = True, False, "tags", True
            end = END_OF_LINE.search(data, i).start()
            close = CLOSE.search(data, quoted.end(), end) if quoted else None
            i = close.end() if close else end
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
                result = bool(RESULT.fullmatch(word))
                if depth == 0:
                    one = bool(MOVE_ONE.match(data, i))
                    prose = first_of_line and not re.search(rb"[0-9]|^--|^O-", word)
                    if phase == "over" and not result and _is_word(word):
                        begins = ((numbered and enough) or not tagged) and (one or prose)
                    else:
                        begins = phase == "moves" and not result and first_of_line and moved and not tagged and one
                    if begins:
                        begin(None)
                        phase = "moves"
                    like = not result and bool(re.search(rb"[0-9]|^--|^O-", word))
                    only_moves, words = only_moves and (result or like), words + like
                    moved = moved or any(byte >= ord("A") for byte in word)
                    numbered = numbered or (phase == "moves" and not result and bool(NUMBER.match(word)))
                    enough = enough or (result and phase != "over" and moved and words > 1)
                    phase = "over" if result else phase
                closed = result
                i += len(word)
    return starts


def _is_word(word: bytes) -> bool:
    return word[:1] not in b"[%" and bool(re.search(rb"[0-9A-Za-z@\x80-\xff]|--", word))
