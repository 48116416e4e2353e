"""Numbers spread evenly: a Sobol sequence, moved by a seeded digital shift.

The direction numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), set D(6). A digital shift keeps what
makes the sequence even: of the first 2^k points each interval of length 2^-k holds exactly one.
"""

from __future__ import annotations

from functools import cache
from random import Random

BITS = 32
# For each dimension after the first: the inner coefficients of its primitive polynomial as bits,
# and its first direction numbers, of which there are as many as the degree of the polynomial.
JOE_KUO: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
    (4, (1, 3, 7, 13, 13, 15, 69)),
    (7, (1, 1, 3, 13, 7, 35, 63)),
    (8, (1, 3, 5, 9, 1, 25, 53)),
    (14, (1, 3, 1, 13, 9, 35, 107)),
    (19, (1, 3, 1, 5, 27, 61, 31)),
    (21, (1, 1, 5, 11, 19, 41, 61)),
    (28, (1, 3, 5, 3, 3, 13, 69)),
    (31, (1, 1, 7, 13, 1, 19, 1)),
    (32, (1, 3, 7, 5, 13, 19, 59)),
    (37, (1, 1, 3, 9, 25, 29, 41)),
    (41, (1, 3, 5, 13, 23, 1, 55)),
    (42, (1, 3, 7, 3, 13, 59, 17)),
)
MOST_DIMENSIONS = len(JOE_KUO) + 1


def shifted_point(seed: int, number: int, dimensions: int) -> list[float]:
    shift = Random(f"sobol {seed}")
    return [(own ^ shift.getrandbits(BITS)) / 2**BITS for own in point(number, dimensions)]


def point(number: int, dimensions: int) -> list[int]:
    """The point in units of 2^-32, in the order of the Gray code, as is usual."""
    gray = number ^ (number >> 1)
    chosen = [bit for bit in range(BITS) if gray >> bit & 1]
    found = []
    for dimension in range(dimensions):
        numbers, own = directions(dimension), 0
        for bit in chosen:
            own ^= numbers[bit]
        found.append(own)
    return found


@cache
def directions(dimension: int) -> tuple[int, ...]:
    """v_1 … v_32 of one dimension as fractions of 2^32, by the recurrence of its polynomial."""
    if dimension == 0:
        return tuple(1 << (BITS - 1 - bit) for bit in range(BITS))
    inner, first = JOE_KUO[dimension - 1]
    degree = len(first)
    found = [own << (BITS - 1 - bit) for bit, own in enumerate(first)]
    for bit in range(degree, BITS):
        own = found[bit - degree] ^ (found[bit - degree] >> degree)
        for back in range(1, degree):
            if inner >> (degree - 1 - back) & 1:
                own ^= found[bit - back]
        found.append(own)
    return tuple(found)
