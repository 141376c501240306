//! The benchmarks: one file for each transaction type. `tools.rs` registers them as tools.

pub mod api;
pub(crate) mod atomic_bw;
pub(crate) mod atomic_lat;
pub mod common;
pub(crate) mod read_bw;
pub(crate) mod read_lat;
pub(crate) mod send_bw;
pub(crate) mod send_lat;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod write_bw;
pub(crate) mod write_lat;

/// Makes the registry of the named modules of `bench`, each with a type `Bench`.
macro_rules! tools {
    ($($module:ident),* $(,)?) => {
        use $crate::bench::api::{Benchmark, Visitor};
        use $crate::bench::{$($module),*};
        use $crate::tool::Tool;

        /// All tools.
        pub static TOOLS: &[Tool] = &[$($module::Bench::TOOL),*];

        /// Calls the method of `visitor` for the benchmark of `tool`.
        ///
        /// # Panics
        ///
        /// If `tool` is not one of [`TOOLS`].
        pub fn visit<V: Visitor>(tool: &Tool, visitor: V) -> V::Output {
            $(if tool.name == $module::Bench::TOOL.name {
                return $module::Bench::accept(visitor);
            })*
            panic!("{} is not in the registry of the tools", tool.name)
        }
    };
}
