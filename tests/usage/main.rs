//! What users install, type and read: packages, the command line, the manual and the guide.

#[path = "../../packaging/documents/mod.rs"]
mod documents;
#[path = "../harness/mod.rs"]
mod harness;

mod action;
mod cli;
mod guide;
mod manual;
mod packaging;
