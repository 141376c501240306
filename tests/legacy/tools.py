"""What each legacy tool does once it knows its peer, as tools.md describes it.

Numbers in brackets are its sections. Where a tool meets its peer at a barrier, so does this one.
"""

import socket
import time

from control import (
    BIDIRECTIONAL, FETCHING, LIMIT, MATCHING, NO_LIMIT, UNRESTRICTED, USE_IDC, USE_RDZV,
)
from nic import *  # the NIC's words are this module's language

TYPE_SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16]  # [8.1]
DOUBLE_COMPLEX, CSWAP, AXOR = 11, 11, 12
MESSAGE = 0x123456789ABCDEF0
RENDEZVOUS_IDS = {True: 0xCC, False: 0xAA}  # by is_client [3.4]
IDC_MOST_RESTRICTED, IDC_MOST = 224, 192
PATTERN = 0xA5


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

    def is_over(self, count, started):
        if self.options.duration:
            return started is not None and time.monotonic() - started >= self.options.duration
        return count >= self.options.iters

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


class OneSided(Run):
    """Write, read and atomic latency [7.1, 7.2, 7.4]: the server's software does nothing."""

    def run(self):
        if self.is_client:
            self.initiator(self.buffer_length())
            self.buffer.fill(self.pattern)
            self.prepare()
        else:
            portals = Portals(self.nic)
            target = Buffer(self.nic, self.buffer_length())
            portals.append(portals.open(0, self.is_matching()), target, *self.entry())
        self.ready()
        for size in self.sizes():
            if self.is_client:
                self.loop(lambda: self.iterate(size))
            self.control.barrier(LIMIT if self.is_client else NO_LIMIT)

    pattern = PATTERN

    def buffer_length(self):
        return self.options.max_size

    def is_matching(self):
        return False

    def prepare(self):
        pass

    def entry(self):
        return (LE_SUCCESS_DISABLE, 1, COMM_DISABLE, 1, BODY_RO, 1, END_RO, 1, IGNORE_BITS, 1,
                self.operation, 1)


class WriteLat(OneSided):
    operation = OP_PUT

    def uses_idc(self):
        """One decision for the whole range [4.1]."""
        most = IDC_MOST if self.has(UNRESTRICTED) else IDC_MOST_RESTRICTED
        return self.has(USE_IDC) and self.options.max_size <= most

    def prepare(self):
        if self.uses_idc():
            self.c_state(RESTRICTED, int(not self.has(UNRESTRICTED)))

    def iterate(self, size):
        if self.uses_idc():
            self.transmit.send(self.idc_put(size))
        else:
            self.transmit.send(self.dma(NOMATCH_PUT, 32, size, 0, RESTRICTED, 1))
        self.events.wait("ACK")


class ReadLat(OneSided):
    operation = OP_GET

    def iterate(self, size):
        self.transmit.send(self.dma(NOMATCH_GET, 32, size, 0, RESTRICTED, 1))
        self.events.wait("REPLY")


class AtomicLat(OneSided):
    """Operands stay what they are at first: that, or less, is what the tool achieves (T9)."""

    operation = OP_PUT
    pattern = 0

    def sizes(self):
        yield TYPE_SIZES[self.options.atomic_type]

    def buffer_length(self):
        return 64

    def is_matching(self):
        return self.has(MATCHING)

    def entry(self):
        fields = super().entry() + ((OP_GET, 1) if self.has(FETCHING) else ())
        if self.is_matching():
            at = fields.index(IGNORE_BITS)
            fields = fields[:at] + (LE_MATCH_BITS, 1) + fields[at + 2 :]
        return fields

    def uses_idc(self):
        return self.has(USE_IDC) and not self.has(MATCHING)

    def restricted(self):
        return int(not self.has(UNRESTRICTED) and not self.has(MATCHING))

    def prepare(self):
        self.result = Buffer(self.nic, 64)
        if self.uses_idc():
            self.c_state(RESTRICTED, self.restricted(), LAC, self.result.lac)

    def iterate(self, size):
        options, fetching = self.options, self.has(FETCHING)
        opcode = FETCHING_ATOMIC if fetching else ATOMIC
        if not self.uses_idc():
            self.transmit.send(self.dma(
                opcode, 128, size, 0, RESTRICTED, self.restricted(),
                MATCH_BITS, int(self.is_matching()), AMO_RESULT, self.result.iova(),
                AMO_RESULT_LAC, self.result.lac, AMO_OP, options.atomic_op,
                AMO_TYPE, options.atomic_type, AMO_CSWAP, options.cswap_op,
            ))
        elif fetching or options.atomic_op in (CSWAP, AXOR) or options.atomic_type == DOUBLE_COMPLEX:
            self.transmit.send(command(
                IDC, opcode, 64, LENGTH, 64, DFA, self.dfa(), LOCAL_ADDR, self.result.iova(),
                LARGE_OP, options.atomic_op, LARGE_TYPE, options.atomic_type,
                LARGE_CSWAP, options.cswap_op, LARGE_OPERAND, 1, LARGE_OPERAND_2, 2,
            ))
        else:
            self.transmit.send(command(
                IDC, opcode, 32, LENGTH, 32, DFA, self.dfa(), SMALL_OP, options.atomic_op,
                SMALL_TYPE, options.atomic_type, SMALL_OPERAND, 1,
            ))
        self.events.wait("REPLY" if fetching else "ACK")


class TwoSided(Run):
    """What both send tools share: messages, and rendezvous [3.2, 3.4]."""

    def own_id(self):
        return self.nic.initiator_id(self.nic.nid, self.nic.pid)

    def receives(self):
        """Fields of the entry that takes messages."""
        if not self.has(USE_RDZV):
            return (OP_PUT, 1, BODY_RO, 1, END_RO, 1, IGNORE_BITS, 1)
        return (OP_PUT, 1, MATCH_ID, self.nic.initiator_id(*self.peer), LE_MATCH_BITS, MESSAGE)

    def open_source(self, length, is_counted):
        """The portal from which the peer fetches."""
        self.source = Portals(self.nic, length)
        more = ()
        if is_counted:
            self.fetched = Counter(self.nic, self.source.events)
            more = (LE_SUCCESS_DISABLE, 1, CT_COMM, 1, LE_COUNTER, self.fetched.number)
        portal = self.source.open(self.nic.rendezvous_index, True)
        self.source.append(
            portal, self.buffer, OP_GET, 1, IGNORE_BITS, 0xF00,
            MATCH_ID, self.nic.initiator_id(self.peer[0], ANY_PID),
            LE_MATCH_BITS, MESSAGE >> 48 << 48 | RENDEZVOUS_IDS[self.is_client], *more,
        )

    def message(self, size, offset, *more):
        if not self.has(USE_RDZV):
            return self.dma(PUT, 64, size, offset, *more)
        return self.dma(
            RENDEZVOUS_PUT if size else PUT, 64, size, offset, MATCH_BITS, MESSAGE,
            RENDEZVOUS_ID, RENDEZVOUS_IDS[self.is_client], INITIATOR, self.own_id(),
            HEADER_DATA, 0x77, USER_PTR, 0x88, *more,
        )

    def uses_idc(self, size):
        return self.has(USE_IDC) and not self.has(USE_RDZV) and size <= IDC_MOST


class SendLat(TwoSided):  # [7.3]
    def run(self):
        self.initiator(self.options.max_size)
        self.buffer.fill(PATTERN)
        is_matching = self.has(USE_RDZV)
        if is_matching:
            self.open_source(PAGE, is_counted=False)
        self.portals = Portals(self.nic)
        self.target = Buffer(self.nic, self.options.max_size)
        for index in (0, 1):
            portal = self.portals.open(index, is_matching)
            self.portals.append(portal, self.target, BUFFER_ID, index, *self.receives())
        self.aim(0)
        self.ready()
        for size in self.sizes():
            if self.index_ext:
                self.aim(0)
            peer_is_done = self.loop(lambda: self.iterate(size))
            if self.options.duration and not peer_is_done:
                self.aim(1)
                self.iterate(size)
            self.control.barrier(LIMIT)

    def aim(self, index):
        """Messages go to this portal index of the peer from now on."""
        self.index_ext = index
        if self.has(USE_IDC) and not self.has(USE_RDZV):
            self.c_state(SUCCESS_DISABLE, 1)

    def iterate(self, size):
        """One round trip; whether the peer's message was its last."""
        self.control.barrier(NO_LIMIT)
        if self.is_client:
            self.send(size)
            return self.receive()
        peer_is_done = self.receive()
        self.send(size)
        return peer_is_done

    def send(self, size):
        if self.uses_idc(size):
            self.transmit.send(self.idc_put(size))
            return
        self.transmit.send(self.message(size, 0))
        self.events.wait("ACK")
        if self.has(USE_RDZV):
            self.source.events.wait("GET")

    def receive(self):
        if not self.has(USE_RDZV):
            return self.portals.events.wait("PUT", quiet=self.events).buffer_id() == 1
        peer_is_done = False
        for _ in range(3):
            event = self.portals.events.wait("PUT", "RENDEZVOUS", "REPLY", quiet=self.events)
            if event.type == "RENDEZVOUS":
                assert event.get_issued(), "no get by software: its template is never filled (T21)"
            elif event.type == "PUT":
                peer_is_done = event.buffer_id() == 1
        return peer_is_done


class SendBw(TwoSided):  # [7.7]
    def run(self):
        options = self.options
        self.list_size = options.list_size
        self.rdzv, self.seen = self.has(USE_RDZV), 0
        self.both = bool(options.flags & BIDIRECTIONAL)
        step = -(-options.max_size // options.buf_align) * options.buf_align
        buffer_size = min(step * self.list_size, options.max_buf_size)
        eq_length = (self.list_size + 1) * 64
        self.initiator(
            buffer_size if self.is_client or self.both else 1, 4 * self.list_size + 1, eq_length
        )
        self.buffer.fill(PATTERN)
        self.initiated = Counter(self.nic, self.events)
        if self.rdzv:
            self.open_source(eq_length, is_counted=True)
        factor = (3 if self.rdzv else 1) * (2 if self.rdzv and self.both else 1)
        self.portals = Portals(self.nic, eq_length * factor)
        self.target = Buffer(self.nic, 1 if self.is_client and not self.both else buffer_size)
        self.arrived = Counter(self.nic, self.portals.events)
        self.portals.append(
            self.portals.open(0, True), self.target, LE_SUCCESS_DISABLE, 1, CT_COMM, 1,
            LE_COUNTER, self.arrived.number, *self.receives(),
        )
        if self.is_client and not self.both:
            self.arrived.arm(1)
        elif self.rdzv:
            self.arrived.skip(2 * self.list_size)
        else:
            self.arrived.arm(self.list_size)
        self.counted = (SUCCESS_DISABLE, 1, CT_ACK, 1, COUNTER, self.initiated.number)
        if self.has(USE_IDC) and not self.rdzv:
            self.c_state(*self.counted)
        self.ready()
        for size in self.sizes():
            self.measure(size)
            if self.rdzv and self.both and options.duration and options.min_size < options.max_size:
                self.clean_up()

    def clean_up(self):
        """Completes what the end of a duration cut off; a peer that does not come to the barrier
        may need one more iteration."""
        retried = False
        while True:
            if self.state == "DONE":
                try:
                    return self.control.barrier(LIMIT)
                except socket.timeout:
                    if retried:
                        return
                except OSError:
                    return
                retried = True
            if not self.iterate(False):
                time.sleep(0.001)

    def measure(self, size):  # [6.2]
        server_of_one_way = not self.is_client and not self.both
        self.size, self.state = size, "DONE"
        limit = LIMIT
        self.control.barrier(limit)
        start, count, waited = time.monotonic(), 0, 0
        while not self.is_over(count, start):
            if self.iterate(server_of_one_way):
                count, waited = count + 1, 0
            else:
                waited += 1
                time.sleep(20e-6)
                if waited % 1000 == 0:
                    assert not self.nic.peer_is_gone(), f"state {self.state}: the peer has gone"
            assert waited < 1_000_000, f"no progress in state {self.state}"
        self.control.barrier(limit)
        elapsed = time.monotonic() - start
        sent = 0 if server_of_one_way else count * self.list_size
        self.control.results(int(elapsed * 1e6), sent)

    def iterate(self, server_of_one_way):
        """One call of the iteration function: whether an iteration is complete."""
        if self.state == "DONE":
            self.state = "RECV" if server_of_one_way else "SEND"
        return self.send() and self.receive() and self.respond() and self.state == "DONE"

    def send(self):
        if self.state not in ("SEND", "RESUME_SEND"):
            return True
        if self.state == "SEND":
            self.initiated.arm(self.list_size)
            if self.rdzv:
                self.fetched.arm(self.list_size)
            offset, step = 0, -(-self.size // self.options.buf_align) * self.options.buf_align
            for _ in range(self.list_size):
                self.emit(self.size, offset)
                offset += step
                end = offset + step - 1
                if end >= self.buffer.length or end >= self.options.max_buf_size:
                    offset = 0
            self.transmit.ring()
            self.events.wait("TRIGGERED_OP")
        if self.rdzv:
            if not self.both:
                self.source.events.wait("TRIGGERED_OP")
            elif not self.triggered(self.source.events):
                self.state = "SINGLE_RECV"
                return False
        self.state = "RECV" if self.both else "RESP"
        return True

    def receive(self):
        if self.state not in ("RECV", "SINGLE_RECV"):
            return True
        if self.rdzv:
            while event := self.portals.events.take():
                assert event.type in ("PUT", "RENDEZVOUS", "REPLY"), event.type
                self.seen += 1
            if self.state == "SINGLE_RECV":
                self.state = "RESUME_SEND"
                return False
            if self.seen < 3 * self.list_size:
                return False
            self.seen -= 3 * self.list_size
        elif not self.triggered(self.portals.events):
            return False
        self.initiated.arm(1)
        per_list = 2 * self.list_size if self.rdzv else self.list_size
        self.arrived.skip(1 if self.both else per_list)
        if self.both or not self.rdzv:
            self.arrived.arm(0)
        self.emit(0, 0)
        self.transmit.ring()
        self.events.wait("TRIGGERED_OP")
        self.state = "RESP" if self.both else "DONE"
        return True

    def respond(self):
        if self.state != "RESP":
            return True
        if not self.triggered(self.portals.events):
            return False
        per_list = 2 * self.list_size if self.rdzv else self.list_size
        self.arrived.skip(per_list if self.both else 1)
        if not (self.rdzv and self.both):
            self.arrived.arm(0)
        self.state = "DONE"
        return True

    def emit(self, size, offset):
        if self.uses_idc(self.size):
            self.transmit.emit(self.idc_put(size, offset))
        else:
            self.transmit.emit(self.message(size, offset, *self.counted))

    def triggered(self, events):
        """Polls once for a trigger."""
        event = events.take()
        if event is None:
            return False
        assert event.type == "TRIGGERED_OP" and event.code == OK, f"{event.type} {event.code}"
        return True


TOOLS = {
    "cxi_write_lat": WriteLat,
    "cxi_read_lat": ReadLat,
    "cxi_send_lat": SendLat,
    "cxi_atomic_lat": AtomicLat,
    "cxi_send_bw": SendBw,
}
