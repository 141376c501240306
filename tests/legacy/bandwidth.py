"""What the bandwidth tools share. Numbers in brackets are sections of tools.md."""

import time

from control import BIDIRECTIONAL, LIMIT, NO_LIMIT
from nic import Counter
from run import Run


class Bandwidth(Run):
    """Lists of operations. Of a size, a tool defines `iterate`."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.list_size = self.options.list_size
        self.both = bool(self.options.flags & BIDIRECTIONAL)
        self.sends = self.is_client or self.both
        self.receives = not self.is_client or self.both
        self.eq_length = (self.list_size + 1) * 64

    def step(self, size):
        return -(-size // self.options.buf_align) * self.options.buf_align

    def buffer_length(self):  # [3.6]
        whole = self.step(self.options.max_size) * self.list_size
        return min(whole, self.options.max_buf_size)

    def list_initiator(self, length):
        """What issues lists, and counts them [3.2]."""
        self.initiator(length, 4 * self.list_size + 1, self.eq_length)
        self.initiated = Counter(self.nic, self.events)

    def offsets(self, size):
        """The walk through the buffers [3.7]."""
        offset, step = 0, self.step(size)
        most = min(self.buffer.length, self.options.max_buf_size or self.buffer.length)
        for _ in range(self.list_size):
            yield offset
            offset += step
            if offset + step - 1 >= most:
                offset = 0

    def is_measured(self):
        """Whether this side runs the loop of a size."""
        return self.sends

    def measure(self, size):
        """One size [6.2]."""
        limit = LIMIT if self.is_measured() else NO_LIMIT
        self.control.barrier(limit)
        start = self.now()
        count = self.iterations(size, start) if self.is_measured() else 0
        self.control.barrier(limit)
        elapsed = self.now() - start if self.is_measured() else 0
        own = elapsed, count * self.list_size if self.sends else 0
        self.print_row(size, own, self.control.results(*own))

    def iterations(self, size, start):
        duration = self.options.duration * 1_000_000 % (1 << 32)  # T7
        count, waited = 0, 0
        while self.now() - start < duration if self.options.duration else count < self.options.iters:
            if self.iterate(size):
                count, waited = count + 1, 0
                continue
            waited += 1
            time.sleep(20e-6)
            if waited % 1000 == 0:
                assert not self.nic.peer_is_gone(), f"{size} bytes: the peer has gone"
            assert waited < 1_000_000, f"{size} bytes: no progress"
        return count

    def now(self):
        """Microseconds."""
        return time.monotonic_ns() // 1000

    def print_row(self, size, own, peer):  # [9.2]
        packets = (size - 1) // 2048 + 1
        rates = [count / elapsed for elapsed, count in (own, peer) if elapsed]
        operations = own[1] if self.sends else "-"
        rate = sum(rates)
        print(f"{size:12}  {operations:>10}  {rate * size:8.2f}  {rate * packets:15.6f}")
