"""The legacy tools by name."""

from nic import Nic
from one_sided import AtomicBw, AtomicLat, ReadBw, ReadLat, WriteBw, WriteLat
from send import SendBw, SendLat

TOOLS = {
    "cxi_write_lat": WriteLat,
    "cxi_read_lat": ReadLat,
    "cxi_send_lat": SendLat,
    "cxi_atomic_lat": AtomicLat,
    "cxi_write_bw": WriteBw,
    "cxi_read_bw": ReadBw,
    "cxi_send_bw": SendBw,
    "cxi_atomic_bw": AtomicBw,
}
