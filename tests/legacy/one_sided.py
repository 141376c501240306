"""The tools of one-sided operations. Numbers in brackets are sections of tools.md."""

import operands
from bandwidth import Bandwidth
from control import FETCHING, LIMIT, MATCHING, NO_LIMIT, UNRESTRICTED, USE_HRP, USE_IDC
from nic import *  # the NIC's words are this module's language
from run import IDC_MOST, IDC_MOST_RESTRICTED, PATTERN, Run

HRP_MOST = 2048


class OneSidedLatency(Run):
    """Write, read and atomic latency [7.1, 7.2, 7.4]: the server's software does nothing."""

    def run(self):
        if self.is_client:
            self.initiator(self.initiator_length())
            self.prepare()
        else:
            self.open_target()
        self.ready()
        for size in self.sizes():
            if self.is_client:
                self.loop(lambda: self.iterate(size))
            self.control.barrier(LIMIT if self.is_client else NO_LIMIT)

    def buffer_length(self):
        return self.options.max_size

    def iterate(self, size):
        self.transmit.send(self.operation(size, 0))
        self.events.wait(self.completion())
        self.advance()


class OneSidedBandwidth(Bandwidth):
    """Write, read and atomic bandwidth [6.3, 7.5, 7.6, 7.8]: a passive side's software does nothing."""

    def run(self):
        if self.sends:
            self.list_initiator(self.initiator_length())
            counts = CT_REPLY if self.completion() == "REPLY" else CT_ACK
            self.counted = (SUCCESS_DISABLE, 1, counts, 1, COUNTER, self.initiated.number)
            if self.wants_hrp():
                self.transmit.select_profile(self.nic.profile(HRP))
            self.prepare(*self.counted)
        if self.receives:
            self.open_target()
        self.ready()
        for size in self.sizes():
            self.measure(size)
            if self.sends and self.wants_hrp() and size == HRP_MOST:
                self.transmit.select_profile(self.lcid)

    def iterate(self, size):
        self.initiated.arm(self.list_size)
        for offset in self.offsets(size):
            self.transmit.emit(self.operation(size, offset, *self.counted))
        self.transmit.ring()
        self.events.wait("TRIGGERED_OP")
        self.advance()
        return True


class Operation:
    """What an operation is, for latency and bandwidth: here without immediate data and operands."""

    def initiator_length(self):
        return self.buffer_length()

    def prepare(self, *more):
        """Fills the buffer and sets the context of immediate commands, which has `more` fields."""
        self.buffer.fill(PATTERN)

    def wants_hrp(self):  # [4.3]
        return False

    def advance(self):
        pass

    def is_matching(self):
        return False

    def open_target(self):  # [3.3, 3.4]
        portals = Portals(self.nic)
        self.target = Buffer(self.nic, self.buffer_length())
        portals.append(
            portals.open(0, self.is_matching()), self.target, LE_SUCCESS_DISABLE, 1,
            COMM_DISABLE, 1, BODY_RO, 1, END_RO, 1, *self.entry(),
        )


class Write(Operation):
    def entry(self):
        return (OP_PUT, 1, IGNORE_BITS, 1)

    def completion(self):
        return "ACK"

    def uses_idc(self):
        """One decision for the whole range [4.1]."""
        most = IDC_MOST if self.has(UNRESTRICTED) else IDC_MOST_RESTRICTED
        return self.has(USE_IDC) and self.options.max_size <= most

    def wants_hrp(self):
        is_possible = not self.has(UNRESTRICTED) and self.options.min_size <= HRP_MOST
        return self.has(USE_HRP) and is_possible

    def prepare(self, *more):
        super().prepare()
        if self.uses_idc():
            self.c_state(RESTRICTED, int(not self.has(UNRESTRICTED)), *more)

    def operation(self, size, offset, *more):
        if self.uses_idc():
            return self.idc_put(size, offset)
        return self.dma(NOMATCH_PUT, 32, size, offset, RESTRICTED, 1, *more)


class Read(Operation):
    def entry(self):
        return (OP_GET, 1, IGNORE_BITS, 1)

    def completion(self):
        return "REPLY"

    def operation(self, size, offset, *more):
        return self.dma(NOMATCH_GET, 32, size, offset, RESTRICTED, 1, *more)


class Atomic(Operation):
    """Target and operand 1 have the intended value in the first element of a list only, until operand
    1 is written again (T10); in the latency tool, which has no list, nowhere (T9)."""

    STEP = 64

    def __init__(self, *arguments):
        super().__init__(*arguments)
        options = self.options
        self.operands = operands.Operands(options.atomic_op, options.cswap_op, options.atomic_type)

    def sizes(self):
        yield operands.SIZES[self.options.atomic_type]

    def step(self, size):
        return self.STEP

    def buffer_length(self):
        return self.STEP * max(self.options.list_size, 1)

    def initiator_length(self):
        return self.buffer_length() * (2 if self.has(FETCHING) else 1)

    def is_matching(self):
        return self.has(MATCHING)

    def entry(self):
        bits = (LE_MATCH_BITS, 1) if self.is_matching() else (IGNORE_BITS, 1)
        return (OP_PUT, 1, OP_GET, int(self.has(FETCHING)), *bits)

    def completion(self):
        return "REPLY" if self.has(FETCHING) else "ACK"

    def uses_idc(self):
        return self.has(USE_IDC) and not self.has(MATCHING)

    def wants_hrp(self):
        return self.has(USE_HRP) and self.restricted() and not self.has(FETCHING)

    def restricted(self):
        return int(not self.has(UNRESTRICTED) and not self.has(MATCHING))

    def prepare(self, *more):
        self.write_elements(self.buffer, self.operands.first, 0)
        if self.uses_idc():
            lac = self.buffer.lac if self.has(FETCHING) else 0
            self.c_state(RESTRICTED, self.restricted(), LAC, lac, *more)

    def open_target(self):
        super().open_target()
        self.write_elements(self.target, self.operands.target, 0)

    def write_elements(self, buffer, value, step):
        value = self.operands.bytes(value)
        for place in range(self.options.list_size):
            buffer.write(place * step, value)

    def advance(self):
        if self.operands.advance():
            self.write_elements(self.buffer, self.operands.first, self.STEP)

    def operation(self, size, offset, *more):
        options, fetching = self.options, self.has(FETCHING)
        first, second = (self.operands.words(value) for value in (self.operands.first, self.operands.second))
        opcode = FETCHING_ATOMIC if fetching else ATOMIC
        result = self.buffer.iova(self.buffer_length() + offset) if fetching else 0
        if not self.uses_idc():
            return self.dma(
                opcode, 128, size, offset, RESTRICTED, self.restricted(),
                MATCH_BITS, int(self.is_matching()), AMO_RESULT, result,
                AMO_RESULT_LAC, self.buffer.lac if fetching else 0, AMO_OP, options.atomic_op,
                AMO_TYPE, options.atomic_type, AMO_CSWAP, options.cswap_op, AMO_OPERAND_2, second, *more,
            )
        is_large = fetching or options.atomic_op in (operands.CSWAP, operands.AXOR)
        if is_large or options.atomic_type == operands.DOUBLE_COMPLEX:
            return command(
                IDC, opcode, 64, LENGTH, 64, DFA, self.dfa(), REMOTE_OFFSET, offset,
                LOCAL_ADDR, result, LARGE_OP, options.atomic_op, LARGE_TYPE, options.atomic_type,
                LARGE_CSWAP, options.cswap_op, LARGE_OPERAND, first, LARGE_OPERAND_2, second,
            )
        return command(
            IDC, opcode, 32, LENGTH, 32, DFA, self.dfa(), REMOTE_OFFSET, offset,
            SMALL_OP, options.atomic_op, SMALL_TYPE, options.atomic_type, SMALL_OPERAND, first,
        )


class WriteLat(Write, OneSidedLatency):
    pass


class ReadLat(Read, OneSidedLatency):
    pass


class AtomicLat(Atomic, OneSidedLatency):
    pass


class WriteBw(Write, OneSidedBandwidth):
    pass


class ReadBw(Read, OneSidedBandwidth):
    pass


class AtomicBw(Atomic, OneSidedBandwidth):
    pass
