#!/usr/bin/env python3
"""A legacy tool that measures with cxidiag: `peer.py NAME VERSION LIBRARY DEVICE BLOCK [PORT]`.

It uses the NIC of number DEVICE through LIBRARY, a libcxi.so.1, and sends the option block BLOCK, in
hexadecimal. With a PORT it is a client, without it a server, which prints where it listens. It is
written from the documents wire.md, tools.md and nic.md alone, and shares no code with cxidiag.
"""

import contextlib
import socket
import sys

import tools
from control import Control


def connection(port):
    if port:
        return socket.create_connection(("127.0.0.1", int(port[0])))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        print(f"Listening on port {port} for client to connect...", flush=True)
        listener.settimeout(60)
        return listener.accept()[0]


def main():
    name, version, library, device, block, *port = sys.argv[1:]
    with contextlib.ExitStack() as closing:
        nic = tools.Nic(library, int(device), closing)
        control = Control(closing.enter_context(connection(port)), bool(port))
        nic.peer_is_gone = control.is_closed
        shared, peer = control.handshake(
            name.encode(), version.encode(), bytes.fromhex(block), (nic.nid, nic.pid)
        )
        tools.TOOLS[name](nic, control, shared, peer).run()


main()
