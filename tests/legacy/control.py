"""The control connection of the legacy tools, as wire.md describes it.

Numbers in brackets are its sections. Like the tools, a peer sends header and payload in two
pieces, and takes what one recv() gives it: whoever talks to it has to hand over whole messages [2].
"""

import collections
import errno
import os
import select
import socket
import struct

VERSIONS = {  # [4.1]
    "cxi_write_lat": "2.4.0",
    "cxi_read_lat": "2.4.0",
    "cxi_send_lat": "2.3.0",
    "cxi_atomic_lat": "2.4.0",
    "cxi_send_bw": "2.4.0",
}
NO_LIMIT = None
LIMIT = 5.0  # seconds [1]
MOST = 1020  # bytes of a name, a version or an option block [2]

# [4.2] "shared" is what a server takes over from its client, "host" is the sender's own.
SHARED = struct.Struct("<I?QQQIHBBQQQQQBBBB")
HOST = struct.Struct("<IIHbx4xQ")
OPTIONS_SIZE = 129
assert SHARED.size == 81 and SHARED.size + 2 * HOST.size == OPTIONS_SIZE

Shared = collections.namedtuple(
    "Shared",
    "clock ignore_cpu_freq_mismatch iters warmup iter_delay duration list_size flags reserved"
    " min_size max_size max_buf_size buf_size buf_align use atomic_op cswap_op atomic_type",
)
# Bits of "flags" and of "use"
BIDIRECTIONAL, REPORT_ALL = 1, 2
USE_HRP, USE_IDC, USE_LL, USE_RDZV, FETCHING, MATCHING, UNRESTRICTED = (1 << bit for bit in range(7))


class Failure(Exception):
    """What a tool prints before it exits with status 1 [10]."""


class Done(Exception):
    """This peer was told to go no further."""


def options_block(shared, host):
    return SHARED.pack(*shared) + HOST.pack(*host) + bytes(HOST.size)


def reason(code):
    return os.strerror(code)


class Control:
    """One connection. `deviations` says at which points to do something that no tool does."""

    def __init__(self, sock, is_client, deviations):
        self.sock = sock
        self.is_client = is_client
        self.deviations = deviations
        self.met = collections.Counter()
        # What the tools between SHS 12.0 and 13.0 sent in each Sync barrier [9.1]
        self.sync_byte = False

    def exchange(self, label, mine, most, limit):
        """One message in each direction, the client's first [3]; returns the peer's."""
        deviation = self.deviation(label)
        if deviation == "skip":
            return mine  # as if the peer had said the same
        if self.is_client:
            self.send(label, mine, deviation)
            return self.receive(label, most, limit)
        theirs = self.receive(label, most, limit)
        self.send(label, mine, deviation)
        return theirs

    def barrier(self, label, limit):
        """An exchange of two empty messages [6]."""
        mine = b"\0" if self.sync_byte and label == "Sync" else b""
        try:
            self.exchange(label, mine, 0, limit)
        except Failure as failure:
            raise Failure(f"{failure.args[0]}\n{label} handshake failed: {failure.args[1]}")

    def deviation(self, label):
        """What to do instead at this point: "label" is its first time, "label#3" its third."""
        self.met[label] += 1
        time = self.met[label]
        return self.deviations.get(label if time == 1 else f"{label}#{time}")

    def send(self, label, payload, deviation=None):
        header = struct.pack("<I", len(payload))
        if deviation is None:
            pieces = [header, payload]
        elif deviation == "close":
            raise Done
        elif deviation == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise Done
        elif deviation == "silence":
            self.wait_for_close()
            raise Done
        elif deviation in ("cut", "stall"):
            whole = header + payload
            self.sock.sendall(whole[: len(whole) // 2])
            if deviation == "stall":
                self.wait_for_close()
            raise Done
        elif deviation == "longer":
            pieces = [struct.pack("<I", len(payload) + 1), payload + b"\0"]
        elif deviation == "shorter":
            pieces = [struct.pack("<I", len(payload) - 1), payload[:-1]]
        elif deviation == "empty":
            pieces = [bytes(4)]
        elif deviation == "huge":
            pieces = [b"\xfe\xff\xff\xff", payload]
        elif deviation == "twice":
            pieces = [header, payload, header, payload]
        else:
            raise ValueError(f"no such deviation: {deviation}")
        try:
            for piece in pieces:
                if piece:
                    self.sock.sendall(piece)
        except OSError as error:
            raise Failure(f"send() failed: {reason(error.errno)}", reason(error.errno))
        print(f"{label} > {payload.hex() or '-'}")

    def receive(self, label, most, limit):
        length = struct.unpack("<I", self.recv(4, limit))[0]
        if length > most:
            raise Failure(
                f"Received message ({length}) larger than buf ({most})", reason(errno.EMSGSIZE)
            )
        payload = self.recv(length, limit) if length else b""
        print(f"{label} < {payload.hex() or '-'}")
        return payload

    def recv(self, length, limit):
        """What one recv() gives, which must be all."""
        self.sock.settimeout(limit)
        try:
            piece = self.sock.recv(length)
        except socket.timeout:
            raise Failure(f"recv() failed: {reason(errno.ETIMEDOUT)}", reason(errno.ETIMEDOUT))
        except OSError as error:
            raise Failure(f"recv() failed: {reason(error.errno)}", reason(error.errno))
        if not piece:
            raise Failure("No data received or remote connection closed", reason(errno.ECONNABORTED))
        if len(piece) != length:
            raise Failure("Bad recv size", reason(errno.EIO))
        return piece

    def is_closed(self):
        """Whether the peer has closed the connection. Does not wait."""
        if not select.select([self.sock], [], [], 0)[0]:
            return False
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def wait_for_close(self):
        """Says nothing more, but listens, until the other side has gone."""
        self.sock.settimeout(60)
        try:
            while self.sock.recv(4096):
                pass
        except OSError:
            pass

    def handshake(self, name, version, block, address):
        """The four exchanges of [4]. Returns the peer's option block and address."""
        exchanging = "Failed to exchange client/server config"
        try:
            theirs = self.exchange("name", name.encode() + b"\0", MOST, LIMIT)
            if theirs != name.encode() + b"\0":
                raise Failure(
                    "Client and server program names do not match!", reason(errno.EINVAL)
                )
            theirs = self.exchange("version", version.encode() + b"\0", MOST, LIMIT)
            if major_and_minor(theirs) != major_and_minor(version.encode()):
                raise Failure(
                    f"Client and server program versions do not match!\n{name}: {version}",
                    reason(errno.EINVAL),
                )
            options = self.exchange("options", block, MOST, LIMIT)
            if len(options) != OPTIONS_SIZE:
                raise Failure(
                    f"Bad opts size (exp {OPTIONS_SIZE} got {len(options)})", reason(errno.EINVAL)
                )
            exchanging = "Failed to exchange client/server addrs"
            theirs = self.exchange("address", struct.pack("<II", *address), 8, LIMIT)
            if len(theirs) != 8:
                raise Failure("Received undersized remote address", reason(errno.EIO))
        except Failure as failure:
            raise Failure(f"{failure.args[0]}\n{exchanging}: {failure.args[1]}")
        return options, struct.unpack("<II", theirs)

    def results(self, elapsed_us, count):
        """The exchange behind a size of a bandwidth run [5]. Returns the peer's."""
        try:
            theirs = self.exchange("results", struct.pack("<QQ", elapsed_us, count), 16, LIMIT)
        except Failure as failure:
            raise Failure(f"{failure.args[0]}\nFailed to share peer results: {failure.args[1]}")
        if len(theirs) != 16:
            raise Failure(f"Peer results size {len(theirs)} (expected 16)")
        return struct.unpack("<QQ", theirs)

    def speak_first(self, name, version):
        """The order before SHS 13.0: the server begins, and each message is one piece [9.1]."""
        for label, text in (("name", name), ("version", version)):
            payload = text.encode() + b"\0"
            if self.is_client:
                theirs = self.receive(label, MOST, LIMIT)
                self.sock.sendall(struct.pack("<I", len(payload)) + payload)
            else:
                self.sock.sendall(struct.pack("<I", len(payload)) + payload)
                theirs = self.receive(label, MOST, LIMIT)
            if label == "name" and theirs != payload:
                raise Failure("Client and server program names do not match!")
            if label == "version" and major_and_minor(theirs) != major_and_minor(payload):
                raise Failure(f"Client and server program versions do not match!\n{name}: {version}")
        raise Failure("This generation is played no further")


def major_and_minor(version):
    """What sscanf("%u.%u") makes of it."""
    head, _, tail = version.rstrip(b"\0").partition(b".")
    digits = b""
    for byte in tail:
        if not chr(byte).isdigit():
            break
        digits += bytes([byte])
    return (int(head), int(digits)) if head.isdigit() and digits else None
