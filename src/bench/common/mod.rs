//! What more than one benchmark is built from.

mod endpoint;
mod initiator;
mod target;

pub use endpoint::{Endpoint, Peer};
pub use initiator::Initiator;
pub use target::Target;
