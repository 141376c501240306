//! The registry of the tools, in the order of listings. All lists of tools derive from it.

tools![
    write_lat, read_lat, atomic_lat, send_lat, write_bw, read_bw, atomic_bw, send_bw
];
