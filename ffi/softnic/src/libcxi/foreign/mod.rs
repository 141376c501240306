//! The functions of libcxi that the tools do not use, for other programs.
//!
//! They use the rest of the library, and nothing of it uses them. Functions about objects that the
//! tools have too are in the files of these objects.

mod administration;
mod platform;
mod registers;
mod telemetry;
mod wait;
