//! The packages, their rooms by floor, and what each room holds. The rules about directions are
//! checked against this list, and the drawings of floors in documents and at the heads of packages
//! are made from it: `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes them.
//!
//! To add a room, add its line to a floor above all rooms that it uses, in `houses/ffi.rs` or
//! `houses/src.rs`. To show the floors of a package in another file, add the file to `shown_in` and
//! two lines to the file (`drawings.rs`).

mod ffi;
mod src;

/// A package of the workspace.
#[derive(Clone, Copy)]
pub struct Package {
    /// As Cargo knows it.
    pub name: &'static str,
    /// The directory of its `Cargo.toml`.
    pub directory: &'static str,
    /// The packages of the workspace that its `Cargo.toml` names for building.
    pub uses: &'static [&'static str],
    pub holds: &'static str,
    pub must_not: &'static str,
    pub house: House,
    /// Directories inside that have floors of their own, and programs beside the library.
    pub parts: &'static [House],
    /// Names that several types of the package have: each is to become one. This list may only
    /// shrink.
    pub repeated_types: &'static [&'static str],
}

/// A directory of modules whose rooms stand on floors.
#[derive(Clone, Copy)]
pub struct House {
    pub directory: &'static str,
    /// The module that the directory holds: nothing for a crate.
    pub module: &'static str,
    /// The files that show the floors (`drawings.rs`).
    pub shown_in: &'static [&'static str],
    /// The rooms of each floor, lowest first: a file or directory, and what it holds. A part of a
    /// directory may be a room by itself: `bench/api`.
    pub floors: &'static [&'static [(&'static str, &'static str)]],
}

/// All packages. A package uses only packages above it in this list.
pub static PACKAGES: &[Package] = &[
    ffi::LIBCXI,
    ffi::WRAPPER,
    ffi::TOPOLOGY,
    ffi::SOFTWARE_NIC,
    src::FACTS,
    src::NODE,
    src::HEALTH,
    src::MEASURE,
    src::PAGE,
    src::CLI,
    src::PLAN,
    src::CREW,
    src::CAMPAIGN,
    src::LOAD,
    src::WHY,
    src::STAT,
    src::REPORT,
    src::SESSION,
    src::DIAG,
    src::SELFTEST,
    src::DEVICES,
    src::PING,
    src::CHECK,
    src::LINK,
    src::EXPLAIN,
    src::HANG,
    src::MEMBERS,
    src::SURVEY,
    src::SERVE,
    src::COMPARE,
    src::PROGRAM,
];

impl Package {
    /// The path of its `Cargo.toml`.
    pub fn manifest(&self) -> String {
        let path = format!("{}/Cargo.toml", self.directory);
        path.trim_start_matches('/').to_owned()
    }

    /// The directories with floors.
    pub fn houses(&self) -> impl Iterator<Item = &House> {
        [&self.house].into_iter().chain(self.parts)
    }

    /// The directories of the library and of each program.
    pub fn crates(&self) -> impl Iterator<Item = &House> {
        self.houses().filter(|house| house.module.is_empty())
    }
}
