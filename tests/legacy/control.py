"""The control connection of the legacy tools, as wire.md describes it.

Numbers in brackets are its sections. Like the tools, a peer sends header and payload in two pieces,
and takes what one recv() returns: its peer has to send whole messages [2].
"""

import collections
import select
import socket
import struct

NO_LIMIT = None
LIMIT = 5.0  # seconds [1]
MOST = 1020  # bytes of a name, a version or an option block [2]

# [4.2] What a server takes over from its client; what follows in the block concerns the sender's host.
SHARED = struct.Struct("<I?QQQIHBBQQQQQBBBB")
Shared = collections.namedtuple(
    "Shared",
    "clock ignore_cpu_freq_mismatch iters warmup iter_delay duration list_size flags reserved"
    " min_size max_size max_buf_size buf_size buf_align use atomic_op cswap_op atomic_type",
)
OPTIONS_SIZE = 129
# Bits of "flags" and of "use"
BIDIRECTIONAL = 1
USE_HRP, USE_IDC, USE_LL, USE_RDZV, FETCHING, MATCHING, UNRESTRICTED = (1 << bit for bit in range(7))


class Control:
    """One connection."""

    def __init__(self, sock, is_client):
        self.sock = sock
        # The legacy tools do not set it (wire.md 1): each of their messages takes 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_client = is_client

    def exchange(self, mine, most, limit):
        """One message in each direction, the client's first [3]; returns the peer's."""
        if self.is_client:
            self.send(mine)
            return self.receive(most, limit)
        theirs = self.receive(most, limit)
        self.send(mine)
        return theirs

    def barrier(self, limit):
        """An exchange of two empty messages [6]."""
        self.exchange(b"", 0, limit)

    def send(self, payload):
        self.sock.sendall(struct.pack("<I", len(payload)))
        if payload:
            self.sock.sendall(payload)

    def receive(self, most, limit):
        (length,) = struct.unpack("<I", self.recv(4, limit))
        assert length <= most, f"received message ({length}) larger than {most}"
        return self.recv(length, limit) if length else b""

    def recv(self, length, limit):
        """Returns what one recv() returns, which must be all."""
        self.sock.settimeout(limit)
        piece = self.sock.recv(length)
        if not piece:
            raise ConnectionAbortedError
        assert len(piece) == length, "part of a message"
        return piece

    def is_closed(self):
        """Whether the peer has closed the connection, behind bytes not yet received too. Does not wait."""
        poll = select.poll()
        poll.register(self.sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def handshake(self, name, version, block, address):
        """The four exchanges of [4]. Returns what governs the run, and the peer's address."""
        theirs = self.exchange(name + b"\0", MOST, LIMIT)
        assert theirs == name + b"\0", f"program names do not match: {theirs}"
        theirs = self.exchange(version + b"\0", MOST, LIMIT)
        major_and_minor = version[: version.rindex(b".")]
        assert theirs.startswith(major_and_minor), f"program versions do not match: {theirs}"
        theirs = self.exchange(block, MOST, LIMIT)
        assert len(theirs) == OPTIONS_SIZE, f"bad opts size {len(theirs)}"
        governing = SHARED.unpack((block if self.is_client else theirs)[: SHARED.size])
        peer = struct.unpack("<II", self.exchange(struct.pack("<II", *address), 8, LIMIT))
        return Shared(*governing), peer

    def results(self, elapsed_us, count):
        """The exchange after a size of a bandwidth run [5]; returns the peer's."""
        theirs = self.exchange(struct.pack("<QQ", elapsed_us, count), 16, LIMIT)
        assert len(theirs) == 16, f"peer results size {len(theirs)}"
        return struct.unpack("<QQ", theirs)
