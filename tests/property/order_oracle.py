"""The order of samples, written again as slow, plain Python over lists."""

from __future__ import annotations

from itertools import pairwise

WORD = 2**64
SHIFT, BLOCKS, LANE, FULL = range(4)


def mix(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def key(*words: int) -> int:
    mixed = 0
    for word in words:
        mixed = mix(mix((mixed + 0x9E3779B97F4A7C15) % WORD) ^ word)
    return mixed


def shuffle(values: list[int], *words: int) -> list[int]:
    values, state = list(values), key(*words)
    for last in reversed(range(1, len(values))):
        state = (state + 0x9E3779B97F4A7C15) % WORD
        other = mix(state) * (last + 1) // WORD
        values[last], values[other] = values[other], values[last]
    return values


def scatter(position: int, samples: int, *words: int) -> int:
    bits = len(bin(max(samples - 1, 1))) - 2
    low_bits = bits - bits // 2
    while True:
        low, high = position % 2**low_bits, position // 2**low_bits
        for turn in range(8):
            if turn % 2 == 0:
                low ^= mix((high + key(*words, turn)) % WORD) % 2**low_bits
            else:
                high ^= mix((low + key(*words, turn)) % WORD) % 2 ** (bits // 2)
        position = high * 2**low_bits + low
        if position < samples:
            return position


def blocks(begin: list[int], chunk_rows: int, block_chunks: int, shift: int) -> list[list[int]]:
    """The samples of each block, from the row at which each sample begins."""
    chunks: dict[int, list[int]] = {}
    for sample, row in enumerate(begin):
        chunks.setdefault(row // chunk_rows, []).append(sample)
    used = [chunks[chunk] for chunk in sorted(chunks)]
    cuts = [0, *range(shift, len(used), block_chunks)]
    parts = [used[first:last] for first, last in zip(cuts, [*cuts[1:], len(used)], strict=True)]
    return [[sample for chunk in part for sample in chunk] for part in parts if part]


def pools(
    begin: list[int], chunk_rows: int, block_chunks: int, pool_blocks: int, mixed: bool, seed: int, epoch: int
) -> list[list[list[int]]]:
    """The blocks of each pool, each a list of samples."""
    shift = key(seed, epoch, SHIFT) * block_chunks // WORD if mixed else 0
    every = blocks(begin, chunk_rows, block_chunks, shift)
    if mixed:
        every = [every[place] for place in shuffle(list(range(len(every))), seed, epoch, BLOCKS)]
    count = -(-len(every) // pool_blocks)
    edges = [pool * len(every) // count for pool in range(count + 1)] if count else [0]
    return [every[first:last] for first, last in pairwise(edges)]


def epoch(
    begin: list[int],
    chunk_rows: int,
    block_chunks: int,
    pool_blocks: int,
    lanes: int,
    shuffle_by: str | bool,
    seed: int,
    number: int,
) -> list[int]:
    """All samples of an epoch in their order."""
    if shuffle_by == "full":
        return [scatter(position, len(begin), seed, number, FULL) for position in range(len(begin))]
    if shuffle_by is False:
        return list(range(len(begin)))
    order = []
    for pool, held in enumerate(pools(begin, chunk_rows, block_chunks, pool_blocks, True, seed, number)):
        samples = [sample for block in held for sample in block]
        dealt = []
        for lane in range(lanes):
            longer = len(samples) % lanes
            first = lane * (len(samples) // lanes) + min(lane, longer)
            size = len(samples) // lanes + (lane < longer)
            dealt.append(shuffle(samples[first : first + size], seed, number, LANE, pool, lane))
        order += [dealt[place % lanes][place // lanes] for place in range(len(samples))]
    return order
