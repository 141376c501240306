//! What the files and counters of a NIC and its host mean (health.md; docs/check.md).
//!
//! <!-- From tests/tidy/houses.rs: src/health -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib                 the list of modules and items                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | code_words          items: error rates of the link                                        |
//!    | majority            what most good NICs have                                              |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | link                items: state, speed, mode and flaps of the link                       |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | cable               items: firmware of the cable, switch port                             |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | address             items: address on the fabric, retry handler                           |
//!    | findings            what the counters of a NIC explain                                    |
//!    | host                items: settings of the host                                           |
//!    | identity            what has no limit: generation, firmware, driver, QoS profile          |
//!    | pcie                items: lanes and speed of the connection to the host                  |
//!    | presence            items: whether the NICs are there                                     |
//!    | services            item: who may use the NIC                                             |
//!    | temperature_power   items: chip, end of the cable, voltage regulators, supplies           |
//!    | traffic             items: loopback writes and reads                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | item                something that is checked, and what was found                         |
//!    | link_down           why a link is down                                                    |
//!    | link_rates          what the counters of a link did                                       |
//!    | sensors             the sensors of a card, with their limits                              |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->
//!
//! A file has the items of one subject, and a function for each that returns a [`Finding`]. What
//! cannot be read is [not available](facts::severity::Severity::NotAvailable): an older driver, the
//! other generation of hardware or a virtual function does not have every file.

#![forbid(unsafe_code)]

pub mod address;
pub mod cable;
pub mod code_words;
pub mod findings;
pub mod host;
pub mod identity;
pub mod item;
pub mod link;
pub mod link_down;
pub mod link_rates;
pub mod majority;
pub mod pcie;
pub mod presence;
pub mod sensors;
pub mod services;
pub mod temperature_power;
pub mod traffic;

pub use item::{Finding, Item, LIMIT, NONE_OF_ITS_OWN};

/// All items, in the order of the report: the most important first.
pub static ITEMS: [&Item; 67] = [
    &presence::DEVICE,
    &link::STATE,
    &link::SPEED,
    &link::LANES,
    &link::LAYER_RETRY,
    &link::LOOPBACK,
    &link::PAUSE,
    &link::FLAPS,
    &link::WARNINGS,
    &link::MEDIA,
    &cable::FIRMWARE,
    &link_down::SETTINGS,
    &cable::SWITCH_PORT,
    &code_words::FLOW,
    &code_words::UNCORRECTED,
    &code_words::CORRECTED,
    &code_words::LANES,
    &code_words::REPLAYS,
    &traffic::FOREIGN,
    &pcie::WIDTH,
    &pcie::SPEED,
    &pcie::UPSTREAM,
    &pcie::AER_FATAL,
    &pcie::AER_NONFATAL,
    &pcie::AER_CORRECTABLE,
    &pcie::AER_BRIDGES,
    &pcie::UNCORRECTED,
    &pcie::CORRECTED,
    &identity::MEMORY_ERRORS,
    &temperature_power::ASIC,
    &temperature_power::MEDIA,
    &temperature_power::REGULATOR,
    &address::ALGORITHMIC,
    &address::RETRY_HANDLER,
    &address::PARKED,
    &services::LEAKED_RESOURCES,
    &services::USABLE,
    &services::RANKS,
    &host::IOMMU,
    &host::LOCALITY,
    &link::MTU,
    &identity::QOS_PROFILE,
    &identity::CLASS_CEILING,
    &identity::GENERATION,
    &identity::SERIAL,
    &identity::FIRMWARE,
    &identity::DRIVER,
    &identity::ESM,
    &temperature_power::POWERS[0].1,
    &temperature_power::POWERS[1].1,
    &temperature_power::POWERS[2].1,
    &temperature_power::POWERS[3].1,
    &temperature_power::VOLTAGES,
    &traffic::WRITE,
    &traffic::READ,
    &traffic::WRITE_BANDWIDTH,
    &traffic::READ_BANDWIDTH,
    &presence::COUNT,
    &presence::DRIVER,
    &host::GOVERNOR,
    &host::HUGE_PAGES,
    &host::KERNEL,
    &host::LIBRARY,
    &host::IDLE_STATES,
    &host::MEMORY_SIZE,
    &host::THROTTLING,
    &host::MEMORY_ERRORS,
];

#[cfg(test)]
pub mod testing {
    //! Verdicts about the files of made-up NICs.

    use facts::severity::Severity;

    use super::*;
    use node::nic::files::Files;
    use node::nic::testing::MadeUp;

    /// Asserts the verdict that `evaluate` returns for each content of a file.
    #[track_caller]
    pub fn assert_verdicts(
        name: &str,
        evaluate: impl Fn(&Files) -> Finding,
        cases: &[(&str, Severity)],
    ) {
        for (content, verdict) in cases {
            let made_up = MadeUp::new(&[(name, content)]);
            let finding = evaluate(&made_up.files);
            assert_eq!(finding.verdict, *verdict, "{name} {content:?}: {finding:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_has_its_own_code_and_name() {
        for unique in [ITEMS.map(|item| item.code).to_vec(), ITEMS.map(|item| item.name).to_vec()] {
            let mut sorted = unique.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), unique.len());
        }
    }
}
