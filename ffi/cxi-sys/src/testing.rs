//! Facts and stand-ins for tests of programs that fill or call the tables of this package.

use std::path::Path;
use std::{fs, io};

/// The binary interface of libcxi as JSON: sizes, offsets, constants, enumerators and prototypes.
pub const ABI: &str = include_str!("../tests/layout/abi.json");

/// Stand-ins for the GPU runtimes in C, by the names of their files. Each source of a runtime is
/// compiled together with `device.c`, except `hsa.c`, which is linked with the library of `hip.c`.
const GPU_RUNTIMES: [(&str, &str); 6] = [
    ("cuda.c", include_str!("../tests/gpu/cuda.c")),
    ("device.c", include_str!("../tests/gpu/device.c")),
    ("device.h", include_str!("../tests/gpu/device.h")),
    ("hip.c", include_str!("../tests/gpu/hip.c")),
    ("hsa.c", include_str!("../tests/gpu/hsa.c")),
    ("level_zero.c", include_str!("../tests/gpu/level_zero.c")),
];

/// Writes the sources of the stand-ins for the GPU runtimes into a directory. `device.h` says what
/// they do.
///
/// # Errors
///
/// Errors of the file system.
pub fn write_gpu_runtimes(directory: &Path) -> io::Result<()> {
    GPU_RUNTIMES.iter().try_for_each(|(name, text)| fs::write(directory.join(name), text))
}
