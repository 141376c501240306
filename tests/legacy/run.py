"""What all legacy tools share, as tools.md describes it. Numbers in brackets are its sections."""

import time

from control import NO_LIMIT
from nic import *  # the NIC's words are this module's language

PATTERN = 0xA5
IDC_MOST_RESTRICTED, IDC_MOST = 224, 192


class Run:
    """What both sides know, and the ways through a run that the tools share [6]."""

    def __init__(self, nic, control, options, peer):
        self.nic, self.control, self.options, self.peer = nic, control, options, peer
        self.is_client = control.is_client

    def has(self, bit):
        return bool(self.options.use & bit)

    def ready(self):
        self.control.barrier(NO_LIMIT)

    def sizes(self):
        size = self.options.min_size
        while size <= self.options.max_size:
            yield size
            size *= 2

    def loop(self, iterate):
        """The latency loop [6.1]. `iterate` returns whether the peer has ended the run, and so does this."""
        count, warm, started = 0, 0, None
        while not self.is_over(count, started):
            if iterate():
                return True
            if warm < self.options.warmup:
                warm += 1
            else:
                started = started or time.monotonic()
                count += 1
            time.sleep(self.options.iter_delay / 1e6)
        return False

    def is_over(self, count, started):
        if self.options.duration:
            return started is not None and time.monotonic() - started >= self.options.duration
        return count >= self.options.iters

    def initiator(self, length, cq_count=5, eq_length=PAGE):
        """Profile, event queue, buffer, transmit queue [3.2]."""
        self.index_ext = 0
        self.lcid = self.nic.profile()
        self.events = Events(self.nic, eq_length)
        self.buffer = Buffer(self.nic, length)
        self.transmit = Commands(self.nic, cq_count, IS_TX, self.lcid)

    def options_of_commands(self, *more):
        """Fields of C_STATE and of all DMA commands [4]."""
        return (SEND_DISABLE, 1, EQ, self.events.number, *more)

    def c_state(self, *more):
        self.transmit.send(command(
            IDC, CSTATE, 32, LENGTH, 32, STATE_INDEX_EXT, self.index_ext,
            *self.options_of_commands(*more),
        ))

    def idc_put(self, size, offset=0):
        length = next(
            length for most, length in ((16, 32), (48, 64), (112, 128), (224, 256)) if size <= most
        )
        head = command(
            IDC, PUT, 32, LENGTH, 16 + size, DFA, self.dfa(), REMOTE_OFFSET, offset
        )[:16]
        head = bytes([head[0] | SIZES[length] << 2]) + head[1:]
        return (head + bytes([PATTERN]) * size).ljust(length, b"\0")

    def dma(self, opcode, length, size, offset, *more):
        return command(
            DMA, opcode, length, INDEX_EXT, self.index_ext, LAC, self.buffer.lac, DFA, self.dfa(),
            LOCAL_ADDR, self.buffer.iova(offset), REMOTE_OFFSET, offset, REQUEST_LEN, size,
            *self.options_of_commands(*more),
        )

    def dfa(self):
        return self.nic.dfa(self.peer, 0)
