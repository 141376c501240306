"""Operands of the atomic tools [tools.md 8], with the defects T11 and T12."""

import math
import struct

MIN, MAX, SUM, LOR, LAND, BOR, BAND, LXOR, BXOR, SWAP, CSWAP, AXOR = 0, 1, 2, *range(4, 13)
EQUAL, NOT_EQUAL, LESS_OR_EQUAL, LESS, GREATER_OR_EQUAL, GREATER = range(6)
UINT64, FLOAT, FLOAT_COMPLEX, DOUBLE, DOUBLE_COMPLEX, UINT128 = range(7, 13)
SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16]
FLOATS = {FLOAT: "<f", FLOAT_COMPLEX: "<f", DOUBLE: "<d", DOUBLE_COMPLEX: "<d"}
PAIRS = (FLOAT_COMPLEX, DOUBLE_COMPLEX, UINT128)
FLT_MAX, DBL_MAX = (2 - 2**-23) * 2.0**127, (2 - 2**-52) * 2.0**1023

# Target, operand 1 and operand 2 before the first iteration, where they are not 0, 1 and 0.
INITIAL = {LAND: (1, 0, 0), BAND: (-1, -2, 0), AXOR: (0, 1, 1)}
INITIAL_OF_CSWAP = {LESS: (3, 1, 0), NOT_EQUAL: (0, 1, 3), GREATER: (0, 1, 3)}


class Operands:
    """Both operands of the next iteration, and the initial value of the target."""

    def __init__(self, op, cswap, type):
        self.op, self.cswap, self.type = op, cswap, type
        if op in (MIN, MAX):
            self.first = self.target = self.limits()[op == MIN]
            self.second = 0
            self.advance()
        elif op == CSWAP:
            self.target, self.first, self.second = INITIAL_OF_CSWAP.get(cswap, (2, 1, 2))
        else:
            self.target, self.first, self.second = INITIAL.get(op, (0, 1, 0))

    def limits(self):
        if self.type in FLOATS:
            greatest = FLT_MAX if self.type == FLOAT else DBL_MAX
            return -greatest, greatest
        bits = 8 * SIZES[self.type]
        is_signed = self.type % 2 == 0
        return (-1 << bits - 1, (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)

    def advance(self):
        """To the next iteration. Returns whether operand 1 is written again."""
        if self.op in (MIN, MAX):
            direction = -1 if self.op == MIN else 1
            if self.type in FLOATS:
                self.first = math.nextafter(self.first, direction * math.inf)  # of a double (T12)
            else:
                self.first += direction
        elif self.op in (BOR, BAND):
            self.first <<= 1
        elif self.op in (SWAP, CSWAP):
            self.first = 3 - self.first
        elif self.op == AXOR:
            self.second = 3 - self.second
        alternates = self.cswap in (EQUAL, LESS_OR_EQUAL, GREATER_OR_EQUAL)
        if self.op == CSWAP and alternates and self.type <= UINT64:  # no other types (T11)
            self.second = 3 - self.second
        return self.op in (MIN, MAX, BOR, BAND, SWAP, CSWAP)

    def bytes(self, value):
        """A value as it is in memory and in commands."""
        if self.type in FLOATS:
            part = struct.pack(FLOATS[self.type], value)
        else:
            size = min(SIZES[self.type], 8)
            part = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        return part * 2 if self.type in PAIRS else part

    def words(self, value):
        """A value as a field of a command."""
        return int.from_bytes(self.bytes(value), "little")
