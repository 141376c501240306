#!/usr/bin/env python3
"""A legacy tool, to be met by cxidiag: `peer.py cxi_write_lat [HOST] -p PORT [options]`.

It takes the tool's own options; without HOST it is the server and says where it listens. It is
written from the documents wire.md, tools.md and nic.md alone, and shares no code with cxidiag.

In the end it shows on stdout each message that went out (`label > payload`) or came in
(`label < payload`), in hexadecimal. What a tool says on stderr when it fails is said here too, and the exit status is
that of the tool. Options that no tool has make it deviate:

  --show-block      print the option block, and that is all
  --nic LIBRARY     libcxi.so.1 to use for the NIC; without it there is none, and the run is over
                    when nothing but the NIC is left to do
  --announce V      another version
  --name N          another program name
  --block AT=HEX    other bytes in the option block
  --generation 1    the message order before SHS 13.0
  --sync-byte       one byte in each Sync barrier, as the tools between SHS 12.0 and 13.0 sent it
  --at LABEL=WHAT   at the exchange of this name (LABEL#2: at its second): close, reset, silence,
                    cut, stall, longer, shorter, empty, huge, twice, skip
"""

import argparse
import contextlib
import io
import socket
import sys

import control
from control import Control, Done, Failure, Shared

OPS = ["min", "max", "sum", "", "lor", "land", "bor", "band", "lxor", "bxor", "swap", "cswap", "axor"]
COMPARISONS = ["eq", "ne", "le", "lt", "ge", "gt"]
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float",
         "float_complex", "double", "double_complex", "uint128"]
GPU_TYPES = {"none": -1, "amd": 0, "nvidia": 1, "intel": 2}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", choices=control.VERSIONS)
    parser.add_argument("host", nargs="?")
    add = parser.add_argument
    add("-d", "--device", default="cxi0")
    add("-v", "--svc-id", type=int, default=1)
    add("-p", "--port", type=int, default=49194)
    add("-n", "--iters", type=int)
    add("-D", "--duration", type=int, default=0)
    add("--warmup", type=int)
    add("--latency-gap", type=int)
    add("-s", "--size")
    add("-l", "--list-size", type=int)
    add("-A", "--atomic-op", choices=OPS, default="sum")
    add("-C", "--cswap-op", choices=COMPARISONS, default="eq")
    add("-T", "--atomic-type", choices=TYPES, default="uint64")
    add("-t", "--tx-gpu", type=int)
    add("-r", "--rx-gpu", type=int)
    add("-g", "--gpu-type", choices=GPU_TYPES, default="none")
    add("-c", "--clock", choices=["clock_gettime", "cycles"], default="clock_gettime")
    add("--use-hp", choices=["2M", "1G"])
    add("--buf-sz", type=int)
    add("--buf-align", type=int)
    for flag in ("no-idc", "no-ll", "unrestricted", "report-all", "fetching", "matching", "emu-mode",
                 "ignore-cpu-freq-mismatch"):
        add("--" + flag, action="store_true")
    add("-R", "--rdzv", action="store_true")
    add("-b", "--bidirectional", action="store_true")
    add("--show-block", action="store_true")
    add("--nic")
    add("--announce")
    add("--name")
    add("--block", action="append", default=[])
    add("--generation", type=int, default=3)
    add("--sync-byte", action="store_true")
    add("--at", action="append", default=[])
    return parser.parse_args()


def options(args, port):
    """The option block that the tool would send [wire.md 4.3]."""
    tool = args.tool
    is_latency, is_atomic = tool.endswith("_lat"), tool == "cxi_atomic_lat"
    smallest, _, largest = (args.size or ("8" if is_latency else "65536")).partition(":")
    sizes = (0, 0) if is_atomic else (int(smallest), int(largest or smallest))
    uses = {"cxi_read_lat": control.USE_LL, "cxi_send_bw": control.USE_IDC}
    use = uses.get(tool, control.USE_IDC | control.USE_LL)
    if args.no_idc or args.tx_gpu is not None or args.rdzv:
        use &= ~control.USE_IDC
    if args.no_ll:
        use &= ~control.USE_LL
    for asked, bit in ((args.rdzv, control.USE_RDZV), (args.fetching, control.FETCHING),
                       (args.matching, control.MATCHING), (args.unrestricted, control.UNRESTRICTED)):
        use |= bit if asked else 0
    report_all = args.report_all and (not args.duration or is_atomic)
    flags = (args.bidirectional | report_all << 1 | args.emu_mode << 3
             | {None: 0, "2M": 1, "1G": 2}[args.use_hp] << 4)

    def given(value, default, applies=True):
        return 0 if not applies else default if value is None else value

    shared = Shared(
        clock=int(args.clock == "cycles"),
        ignore_cpu_freq_mismatch=args.ignore_cpu_freq_mismatch,
        iters=given(args.iters, 100 if is_latency else 1000),
        warmup=given(args.warmup, 10, is_latency),
        iter_delay=given(args.latency_gap, 1000, is_latency),
        duration=args.duration,
        list_size=given(args.list_size, 256, not is_latency),
        flags=flags, reserved=0,
        min_size=sizes[0], max_size=sizes[1],
        max_buf_size=given(args.buf_sz, 1 << 32, not is_latency),
        buf_size=0,
        buf_align=given(args.buf_align, 64, not is_latency),
        use=use,
        atomic_op=OPS.index(args.atomic_op) if is_atomic else 0,
        cswap_op=COMPARISONS.index(args.cswap_op) if is_atomic else 0,
        atomic_type=TYPES.index(args.atomic_type) if is_atomic else 0,
    )
    gpus = 0
    for number, at in ((args.tx_gpu, 0), (args.rx_gpu, 9)):
        gpus |= 0 if number is None else (number | 0x100) << at
    gpu_type = 0 if is_atomic else GPU_TYPES[args.gpu_type]
    host = (args.svc_id, int(args.device[3:]), port, gpu_type, gpus)
    block = bytearray(control.options_block(shared, host))
    for change in args.block:
        at, _, changed = change.partition("=")
        changed = bytes.fromhex(changed)
        block[int(at) : int(at) + len(changed)] = changed
    return bytes(block)


def connection(args):
    """Connected or accepted; and the port that this side names in its option block."""
    if args.host:
        return socket.create_connection((args.host, args.port)), args.port
    listener = socket.create_server(("127.0.0.1", args.port))
    port = listener.getsockname()[1]
    print(f"Listening on port {port} for client to connect...", flush=True)
    listener.settimeout(60)
    sock, _ = listener.accept()
    listener.close()
    return sock, port


def play(args, closing):
    nic, address = None, (0x13, 0)
    if args.nic:
        import tools  # takes a while, and most tests of the handshake go without

        nic = tools.Nic(args.nic, int(args.device[3:]), closing)
        address = (nic.nid, nic.pid)
    sock, port = connection(args)
    # Shown when all is over: nobody may be reading yet, and a full pipe would stop the run.
    shown = io.StringIO()
    closing.callback(lambda: sys.__stdout__.write(shown.getvalue()))
    closing.enter_context(contextlib.redirect_stdout(shown))
    closing.callback(sock.close)
    link = Control(sock, bool(args.host), dict(at.split("=") for at in args.at))
    link.sync_byte = args.sync_byte
    name, version = args.name or args.tool, args.announce or control.VERSIONS[args.tool]
    if args.generation < 3:
        link.speak_first(name, version)
    block = options(args, port)
    theirs, peer = link.handshake(name, version, block, address)
    governing = block if link.is_client else theirs
    shared = Shared(*control.SHARED.unpack(governing[: control.SHARED.size]))
    if nic:
        sys.modules["nic"].peer_is_gone = link.is_closed
        tools.TOOLS[args.tool](nic, link, shared, peer).run()
    else:
        link.barrier("Server" if link.is_client else "Client", control.NO_LIMIT)


def main():
    args = parse()
    if args.show_block:
        print(options(args, args.port).hex())
        return
    try:
        with contextlib.ExitStack() as closing:
            play(args, closing)
    except Done:
        pass
    except Failure as failure:
        sys.exit(failure.args[0])


if __name__ == "__main__":
    main()
