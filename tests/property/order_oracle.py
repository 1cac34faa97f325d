"""The order of samples, written again as slow, plain Python over lists."""

from __future__ import annotations

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


def pools(
    samples: int, block: int, step: int, pool_blocks: int, lanes: int, shuffled: bool, seed: int, epoch: int
) -> list[list[list[int]]]:
    """The blocks of each pool, each a list of samples."""
    shift = 0
    if shuffled and samples > block:
        shift = step * (key(seed, epoch, SHIFT) * len(range(0, block, step)) // WORD)
    numbers = list(range(samples))
    lead, rest = numbers[:shift], numbers[shift:]
    full = [rest[at : at + block] for at in range(0, len(rest) - block + 1, block)]
    tail = rest[len(full) * block :]
    if shuffled:
        full = [full[place] for place in shuffle(list(range(len(full))), seed, epoch, BLOCKS)]
    count = max(1, -(-len(full) // pool_blocks))
    divisors = [each for each in range(1, lanes + 1) if lanes % each == 0]
    unit = max(each for each in divisors if each == 1 or pool_blocks % (4 * each) == 0)
    held = []
    for pool in range(count - 1):
        units = len(full) // unit // count + (pool < len(full) // unit % count)
        first = sum(len(blocks) for blocks in held)
        held.append(full[first : first + units * unit])
    held.append(full[sum(len(blocks) for blocks in held) :] + [short for short in (lead, tail) if short])
    return held


def epoch(
    samples: int,
    block: int,
    step: int,
    pool_blocks: int,
    lanes: int,
    shuffle_by: str | bool,
    seed: int,
    number: int,
) -> list[int]:
    """All samples of an epoch in their order."""
    if shuffle_by == "full":
        return [scatter(position, samples, seed, number, FULL) for position in range(samples)]
    if shuffle_by is False:
        return list(range(samples))
    order = []
    for pool, blocks in enumerate(pools(samples, block, step, pool_blocks, lanes, True, seed, number)):
        rows = [row for each in blocks for row in each]
        dealt = []
        for lane in range(lanes):
            longer = len(rows) % lanes
            first = lane * (len(rows) // lanes) + min(lane, longer)
            size = len(rows) // lanes + (lane < longer)
            dealt.append(shuffle(rows[first : first + size], seed, number, LANE, pool, lane))
        order += [dealt[place % lanes][place // lanes] for place in range(len(rows))]
    return order
