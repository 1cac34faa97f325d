"""What means something in a file of each kind; separated by blanks, ``_`` for a blank inside."""

from __future__ import annotations


def _words(text: str) -> tuple[bytes, ...]:
    spelt = text.split()
    return tuple(word.replace("_", " ").encode().decode("unicode_escape").encode("latin-1") for word in spelt)


PGN = _words(
    r"""[Event_" [Site_" [White_" [Result_"1-0"] [Result_"*"] [FEN_"8/8/8/8/8/8/8/8_w_-_-_0_1"] [SetUp_"1"]
    [Elo_" [Variant_"chess960"] [Variant_"Crazyhouse"] [WhiteElo_"99999"] [TimeControl_"1+"] { } ( ) ; % $999 1-0 0-1
    1/2-1/2 *
    -- Z0 O-O O-O-O e8=Q+ exd6_e.p. N@e4 1. 1... [%clk_0:00:00] \\ " \n\n [ ] e2e4 0000 Qa1xb2# !? \n[Event_"?"]\n\n"""
)
SGF = _words(
    r"""(; ) (; AB[aa:ss] AW[bb:aa] AE[aa] SZ[99] SZ[19:9] SZ[0] GM[2] GM[1] FF[4] KM[1e999] HA[99] RE[B+R] RE[Void]
    B[tt]
    W[] B[zz] B[aa]B[aa] CA[utf-16] CA[shift_jis] CA[?] C[ [ ] \\] \\ PL[W] AP[x:1] KO[] AB[aa][ab][ba]
    ;B[aa];W[ab];B[bb] (;FF[4]SZ[19]"""
)
TEXT = _words(
    r"""{"text":_" "} \n \r\n {} [] null {"text":_null} {"text":_1} {"text":_["a"]} \\ud800 \\u0000 <|endoftext|>
    {"text":_"a",_"text":_"b"} [[[[ {"a":{"a":{"a": \xf0\x9f\x98\x80 \xe1\x84\x80 __ 's --- 0000000 aaaaaaaa"""
)
HDF5 = _words(
    r"""\x89HDF\r\n\x1a\n TREE SNOD HEAP OHDR OCHK FRHP GCOL BTHD FADB stim robs trial data rate unit seconds
    MATLAB_class     \xff\xff\xff\xff\xff\xff\xff\xff \x00\x00\x00\x00\x00\x00\x00\x00"""
)
NPZ = _words(
    r"""PK\x03\x04 PK\x01\x02 PK\x05\x06 \x93NUMPY \x93NUMPY\x01\x00 {'descr':_' 'fortran_order':_True 'shape':_( <f8
    >i4
    |O <U9 O stim.npy ../stim.npy
    ,_99999999999)"""
)
PARQUET = _words(r"""PAR1 PARE text \x15\x00\x15 \x4c \x18 \x28""")
