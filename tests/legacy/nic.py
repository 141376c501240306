"""What the legacy tools do with the NIC, through the functions of libcxi.so.1.

Numbers in brackets are sections of nic.md. Commands and events are little-endian records; a
field is (first bit, bits).
"""

import ctypes
import mmap
import threading
import time

PAGE = mmap.PAGESIZE
PIN_READ_WRITE = 0xD
EC_DISABLE = 0x40
IS_TX, WITH_TRIGGERS = 2, 8
BEST_EFFORT = 3
DEFAULT, HRP = 0, 1
ANY_PID = 511
SERVICE = 1

# Types of commands, opcodes [3.1]
IDC, DMA, CT, CQ = range(4)
PUT, GET, RENDEZVOUS_PUT, ATOMIC, FETCHING_ATOMIC = 1, 2, 3, 4, 5
NOMATCH_PUT, NOMATCH_GET, CSTATE = 8, 9, 10
LCID = 2
TRIG_EVENT = 8
APPEND, SETSTATE = 8, 12
ENABLED = 2
SIZES = {32: 0, 64: 1, 128: 2, 256: 3}

# Fields of commands [3.3 to 3.9]
LENGTH, INDEX_EXT, LAC = (8, 8), (8, 5), (16, 3)
SEND_DISABLE, SUCCESS_DISABLE, CT_REPLY, CT_ACK, RESTRICTED = (
    (bit, 1) for bit in (19, 20, 22, 23, 26)
)
DFA, REMOTE_OFFSET, LOCAL_ADDR, REQUEST_LEN = (32, 32), (64, 56), (128, 57), (192, 32)
COUNTER, EQ = (224, 11), (240, 11)
RENDEZVOUS_ID, INITIATOR, MATCH_BITS = (280, 8), (288, 32), (320, 64)
HEADER_DATA, USER_PTR = (384, 64), (448, 64)
STATE_INDEX_EXT = (64, 5)
# Atomic operations: immediate, small and large [3.7], and DMA [3.10]
SMALL_OP, SMALL_TYPE, SMALL_OPERAND = (128, 4), (136, 4), (192, 64)
LARGE_OP, LARGE_TYPE, LARGE_CSWAP = (192, 4), (200, 4), (208, 3)
LARGE_OPERAND, LARGE_OPERAND_2 = (256, 128), (384, 128)
AMO_RESULT, AMO_OP, AMO_TYPE, AMO_CSWAP = (512, 57), (576, 4), (584, 4), (592, 3)
AMO_RESULT_LAC, AMO_OPERAND_2 = (608, 3), (640, 128)
# Of the command that selects a communication profile [3.11]
PROFILE = (32, 4)
# Counters [3.12]
WATCHED, CT_EQ, THRESHOLD = (32, 11), (48, 11), (128, 48)
# Target commands [3.13]
PORTAL, CT_COMM, UNLINK_DISABLE, LE_SUCCESS_DISABLE, COMM_DISABLE = (
    (16, 11), (34, 1), (35, 1), (36, 1), (37, 1),
)
END_RO, BODY_RO, OP_GET, OP_PUT, LE_COUNTER = (39, 1), (40, 1), (45, 1), (46, 1), (48, 11)
BUFFER_ID, LE_LAC, START, ENTRY_LENGTH = (64, 16), (80, 3), (128, 57), (192, 56)
MATCH_ID, LE_MATCH_BITS, IGNORE_BITS = (288, 32), (320, 64), (384, 64)
STATE = (8, 3)

# Events [6.1]
EVENTS = {
    0: "PUT", 1: "GET", 9: "ACK", 10: "REPLY", 11: "LINK", 13: "STATE_CHANGE",
    15: "RENDEZVOUS", 18: "TRIGGERED_OP", 31: "NULL",
}
OK = 1


class Md(ctypes.Structure):
    _fields_ = [
        ("iova", ctypes.c_uint64), ("va", ctypes.c_uint64), ("len", ctypes.c_size_t),
        ("lac", ctypes.c_uint8), ("page_shift", ctypes.c_int), ("huge_shift", ctypes.c_int),
        ("id", ctypes.c_uint),
    ]


class EqAttr(ctypes.Structure):
    _fields_ = [
        ("queue", ctypes.c_void_p), ("queue_len", ctypes.c_size_t), ("flags", ctypes.c_uint64),
        ("unused", ctypes.c_uint * 6),
    ]


class Eq(ctypes.Structure):
    _fields_ = [
        ("byte_size", ctypes.c_uint), ("sw_state", ctypes.c_uint64),
        ("sw_state_addr", ctypes.c_uint64), ("last_ts_sec", ctypes.c_uint64),
        ("last_ts_ns", ctypes.c_uint64), ("rd_offset", ctypes.c_uint),
        ("prev_rd_offset", ctypes.c_uint), ("eqn", ctypes.c_uint),
    ]


class CqOptions(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint), ("policy", ctypes.c_int), ("stat_cnt_pool", ctypes.c_uint),
        ("flags", ctypes.c_uint32), ("lcid", ctypes.c_uint), ("lpe_cdt_thresh_id", ctypes.c_uint),
    ]


class Cq(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint), ("wp_addr", ctypes.c_uint64), ("ll_64", ctypes.c_uint64),
        ("ll_128a", ctypes.c_uint64), ("ll_128u", ctypes.c_uint64), ("commands", ctypes.c_uint64),
    ]


class Ct(ctypes.Structure):
    _fields_ = [("doorbell", ctypes.c_uint64), ("ctn", ctypes.c_uint)]


def words(pointer, count):
    """The first numbers of a record that begins with unsigned ints."""
    return (ctypes.c_uint * count).from_address(pointer.value)


def record(length, *fields):
    """A record of `length` bytes; fields come in pairs of place and value."""
    number = 0
    for (first, bits), value in zip(fields[::2], fields[1::2]):
        assert value >> bits == 0, f"{value:#x} does not fit {bits} bits"
        number |= value << first
    return number.to_bytes(length, "little")


def command(kind, opcode, length, *fields):
    return record(length, (0, 2), kind, (2, 2), SIZES[length], (4, 4), opcode, *fields)


def field(data, place):
    first, bits = place
    return int.from_bytes(data, "little") >> first & (1 << bits) - 1


def fence(lock=threading.Lock()):
    """Orders the stores before and after it, as taking a lock does."""
    with lock:
        pass


def store(address, value):
    fence()
    ctypes.c_uint64.from_address(address).value = value


class Memory:
    """Zeroed pages, unmapped after the objects of the NIC have been released."""

    def __init__(self, nic, length):
        length = -(-length // PAGE) * PAGE
        self.bytes = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        self.length = length
        nic.closing.callback(self.bytes.close)


class Nic:
    """A device, and an address on it [tools.md 3.1]. `closing` releases everything in reverse order."""

    def peer_is_gone(self):
        """Whether the control connection has ended; replaced once there is one."""
        return False

    def __init__(self, path, number, closing):
        self.library = ctypes.CDLL(path)
        self.closing = closing
        self.device = self.allocated(
            "open_device", "close_device", lambda out: (ctypes.c_uint32(number), out)
        )
        info = words(self.device, 7)
        self.nid, self.pid_bits, self.rendezvous_index = info[1], info[2], info[6]
        service = ctypes.create_string_buffer(512)
        self.call("get_svc", self.device, ctypes.c_uint(SERVICE), service)
        self.vni = int.from_bytes(service.raw[2:4], "little")
        self.lni = self.allocated(
            "alloc_lni", "destroy_lni", lambda out: (self.device, out, ctypes.c_uint(SERVICE))
        )
        domain = self.allocated(
            "alloc_domain", "destroy_domain", lambda out: (self.lni, self.vni, ANY_PID, out)
        )
        self.pid = words(domain, 2)[1]
        self.domain = domain

    def call(self, name, *arguments):
        code = getattr(self.library, "cxil_" + name)(*arguments)
        assert code == 0, f"cxil_{name}: {code}"

    def allocated(self, allocate, release, arguments):
        """An object that a function returns through a pointer, released at the end."""
        handle = ctypes.c_void_p()
        self.call(allocate, *arguments(ctypes.byref(handle)))
        function = getattr(self.library, "cxil_" + release)
        if release == "close_device":
            function.restype = None
        self.closing.callback(function, handle)
        return handle

    def initiator_id(self, nid, pid):  # [4.2]
        low = 32 - self.pid_bits
        return (pid & (1 << self.pid_bits) - 1) << low | nid & (1 << low) - 1

    def dfa(self, address, index):  # [4.1]
        nid, pid = address
        return nid << 12 | ((index >> 5 << self.pid_bits) + pid) & 0xFFF

    def profile(self, type=DEFAULT):
        """Allocates a communication profile and returns its LCID."""
        cp = self.allocated(
            "alloc_cp", "destroy_cp", lambda out: (self.lni, self.vni, BEST_EFFORT, type, out)
        )
        return words(cp, 4)[3]


class Buffer:
    """Memory that the NIC may read and write."""

    def __init__(self, nic, length):
        self.memory = Memory(nic, length)
        self.length = self.memory.length
        md = nic.allocated(
            "map", "unmap",
            lambda out: (nic.lni, ctypes.c_void_p(self.memory.address),
                         ctypes.c_size_t(self.length), PIN_READ_WRITE, None, out),
        )
        self.handle = md
        self.md = Md.from_address(md.value)
        self.lac = self.md.lac

    def iova(self, offset=0):
        return self.md.iova + self.memory.address - self.md.va + offset

    def write(self, offset, data):
        self.memory.bytes[offset : offset + len(data)] = data

    def fill(self, byte):
        self.memory.bytes[:] = bytes([byte]) * self.length


class Event:
    def __init__(self, data):
        self.type = EVENTS[data[14] >> 2 & 31]
        self.code = data[-1] & 63
        self.data = data

    def state(self):
        return field(self.data, (64, 3))

    def buffer_id(self):
        return field(self.data, (192, 16))

    def counter(self):
        return field(self.data, (64, 11))

    def get_issued(self):
        return field(self.data, (123, 1))


class Events:
    """An event queue [5]."""

    def __init__(self, nic, length=PAGE):
        self.nic = nic
        self.buffer = Buffer(nic, length)
        attributes = EqAttr(self.buffer.memory.address, self.buffer.length, EC_DISABLE)
        self.handle = nic.allocated(
            "alloc_evtq", "destroy_evtq",
            lambda out: (nic.lni, self.buffer.handle, ctypes.byref(attributes), None, None, out),
        )
        self.eq = Eq.from_address(self.handle.value)
        self.number = self.eq.eqn
        self.at = 64

    def take(self):
        """The next event if there is one, acknowledged at once [5.3, 5.4]."""
        memory = self.buffer.memory.bytes
        while True:
            at = self.at
            size = memory[at + 14] & 3
            length = 8 << size
            if size == 0 or memory[at + length - 1] & 63 == 0:
                return None
            fence()
            event = Event(memory[at : at + length])
            memory[at : at + length] = bytes(length)
            self.at += length
            if self.at >= self.buffer.length:
                self.at = 64
            store(self.eq.sw_state_addr, self.at // 64)
            if event.type != "NULL":
                return event

    def wait(self, *types, quiet=None):
        """The next event, which must be one of these and OK; none may come to the `quiet` queue.
        Legacy tools wait without a limit; this one has a limit and ends when its peer has gone."""
        now = time.monotonic()
        deadline, look = now + 30, now + 1
        while (event := self.take()) is None:
            now = time.monotonic()
            assert now < deadline, f"no {types} within 30 s"
            if now >= look:
                assert not self.nic.peer_is_gone(), f"no {types}: the peer has gone"
                look = now + 0.1
            failed = quiet and quiet.take()
            assert not failed, f"{failed.type} {failed.code} while waiting for {types}"
            time.sleep(20e-6)
        assert event.type in types and event.code == OK, f"{event.type} {event.code}, not {types}"
        return event


class Commands:
    """A command queue with a doorbell [2]. Each command takes whole slots of 64 bytes."""

    def __init__(self, nic, count, flags, lcid=0, events=None):
        options = CqOptions(count, 0, 0, flags, lcid, 0)
        handle = nic.allocated(
            "alloc_cmdq", "destroy_cmdq",
            lambda out: (nic.lni, events and events.handle, ctypes.byref(options), out),
        )
        self.cq = Cq.from_address(handle.value)
        self.slot = 4

    def emit(self, command):
        slots = -(-len(command) // 64)
        while self.slot % slots:
            self.put(bytes(64))
        command = command.ljust(64 * slots, b"\0")
        for at in range(0, len(command), 64):
            self.put(command[at : at + 64])

    def put(self, slot):
        following = self.slot + 1 if self.slot + 1 < self.cq.size else 4
        fetched = ctypes.c_uint16.from_address(self.cq.commands).value
        assert following != fetched, "No space left on device"
        ctypes.memmove(self.cq.commands + 64 * self.slot, slot, 64)
        self.slot = following

    def ring(self):
        store(self.cq.wp_addr, self.slot)

    def send(self, command):
        self.emit(command)
        self.ring()

    def select_profile(self, lcid):
        """Switches the profile of the next commands, with which this one is rung [3.11]."""
        self.emit(command(CQ, LCID, 64, PROFILE, lcid) + command(CQ, 0, 64))


class Counter:
    """A counter with cumulative thresholds [9]: it is not reset in a run."""

    def __init__(self, nic, events):
        self.handle = nic.allocated("alloc_ct", "destroy_ct", lambda out: (nic.lni, None, out))
        ct = Ct.from_address(self.handle.value)
        self.number, self.events, self.threshold = ct.ctn, events, 0
        store(ct.doorbell + 128, 0)
        store(ct.doorbell + 192, 0)
        self.triggers = Commands(nic, 1, IS_TX | WITH_TRIGGERS, 0, events)

    def skip(self, more):
        self.threshold += more

    def arm(self, more):
        self.skip(more)
        self.triggers.send(command(
            CT, TRIG_EVENT, 64, WATCHED, self.number, CT_EQ, self.events.number,
            THRESHOLD, self.threshold,
        ))


class Portals:
    """The target's queues and portals [tools.md 3.3, 3.4]."""

    def __init__(self, nic, length=PAGE):
        self.nic = nic
        self.events = Events(nic, length)
        self.commands = Commands(nic, 1, 0)

    def open(self, index, is_matching):
        nic, opts = self.nic, ctypes.c_uint64(0x80 if is_matching else 0)
        pte = nic.allocated(
            "alloc_pte", "destroy_pte",
            lambda out: (nic.lni, self.events.handle, ctypes.byref(opts), out),
        )
        nic.allocated(
            "map_pte", "unmap_pte",
            lambda out: (pte, nic.domain, ctypes.c_uint(index), ctypes.c_bool(False), out),
        )
        portal = words(pte, 1)[0]
        self.commands.send(command(CQ, SETSTATE, 64, STATE, ENABLED, PORTAL, portal))
        assert self.events.wait("STATE_CHANGE").state() == ENABLED
        return portal

    def append(self, portal, buffer, *fields):
        self.commands.send(command(
            CQ, APPEND, 64, PORTAL, portal, UNLINK_DISABLE, 1, LE_LAC, buffer.lac,
            START, buffer.iova(), ENTRY_LENGTH, buffer.length, *fields,
        ))
        self.events.wait("LINK")
