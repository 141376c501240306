"""The send tools. Numbers in brackets are sections of tools.md."""

import socket
import time

from bandwidth import Bandwidth
from control import LIMIT, NO_LIMIT, USE_IDC, USE_RDZV
from nic import *  # the NIC's words are this module's language
from run import IDC_MOST, PATTERN, Run

MESSAGE = 0x123456789ABCDEF0
RENDEZVOUS_IDS = {True: 0xCC, False: 0xAA}  # by is_client [3.4]


class TwoSided:
    """What both send tools share: messages, and rendezvous [3.2, 3.4]."""

    def own_id(self):
        return self.nic.initiator_id(self.nic.nid, self.nic.pid)

    def entry(self):
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


class SendLat(TwoSided, Run):  # [7.3]
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
            self.portals.append(portal, self.target, BUFFER_ID, index, *self.entry())
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


class SendBw(TwoSided, Bandwidth):  # [7.7]
    def run(self):
        options = self.options
        self.rdzv, self.seen = self.has(USE_RDZV), 0
        self.list_initiator(self.buffer_length() if self.sends else 1)
        self.buffer.fill(PATTERN)
        if self.rdzv:
            self.open_source(self.eq_length, is_counted=True)
        factor = (3 if self.rdzv else 1) * (2 if self.rdzv and self.both else 1)
        self.portals = Portals(self.nic, self.eq_length * factor)
        self.target = Buffer(self.nic, self.buffer_length() if self.receives else 1)
        self.arrived = Counter(self.nic, self.portals.events)
        self.portals.append(
            self.portals.open(0, True), self.target, LE_SUCCESS_DISABLE, 1, CT_COMM, 1,
            LE_COUNTER, self.arrived.number, *self.entry(),
        )
        if not self.receives:
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
            self.size, self.state = size, "DONE"
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
            if not self.iterate(self.size):
                time.sleep(0.001)

    def is_measured(self):
        return True

    def iterate(self, size):
        """One call of the iteration function: whether an iteration is complete."""
        if self.state == "DONE":
            self.state = "SEND" if self.sends else "RECV"
        return self.send() and self.receive() and self.respond() and self.state == "DONE"

    def send(self):
        if self.state not in ("SEND", "RESUME_SEND"):
            return True
        if self.state == "SEND":
            self.initiated.arm(self.list_size)
            if self.rdzv:
                self.fetched.arm(self.list_size)
            for offset in self.offsets(self.size):
                self.emit(self.size, offset)
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
