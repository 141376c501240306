//! What is known of a job before it is judged: settings, what libfabric says, facts of the node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::{RULES, dotted};
use super::values::boolean;

/// Value of a secret.
pub const SECRET: &str = "(not shown)";

/// What is known of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Names and values of the settings in its environment.
    pub settings: BTreeMap<String, String>,
    /// Settings of the file libfabric.conf, by name; the environment's where the file's is used.
    pub conf: BTreeMap<String, String>,
    /// Facts by name in small letters, as `settings.txt` uses them.
    pub facts: BTreeMap<String, String>,
    /// What its libfabric says; `None` if it could not be asked.
    pub library: Option<LibfabricAnswer>,
    /// Other files of libfabric that the process has loaded.
    pub other_libraries: Vec<String>,
}

/// What an installed libfabric says about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LibfabricAnswer {
    /// Path of the file.
    pub path: String,
    /// Major and minor version.
    pub version: String,
    /// The names that core and providers registered, with their types.
    pub names: BTreeMap<String, ParameterType>,
    /// Names of providers, as `fi_getinfo` lists them.
    pub providers: Vec<String>,
    /// Sizes of the first entry of the provider cxi.
    pub tx_size: Option<u64>,
    pub rx_size: Option<u64>,
}

/// How libfabric reads the text of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterType {
    Text,
    Int,
    Bool,
    Size,
}

impl Evidence {
    /// Returns what is known from this environment. Values of secrets are left out.
    pub fn new(
        environment: impl IntoIterator<Item = (String, String)>,
        library: Option<LibfabricAnswer>,
        facts: BTreeMap<String, String>,
    ) -> Self {
        let mut evidence = Self { facts, library, ..Self::default() };
        for (name, value) in environment {
            if RULES.is_setting(&name) {
                let is_secret = RULES.is_secret(&name);
                let value = if is_secret { SECRET.to_owned() } else { value };
                evidence.settings.insert(name, value);
            } else if matches!(name.as_str(), "SLURM_JOB_ID") {
                evidence.facts.insert(name, value);
            }
        }
        let beginnings = ["NCCL_", "OFI_NCCL_", "RCCL_"];
        if evidence.has_setting(&beginnings) {
            evidence.facts.insert("nccl".into(), "1".into());
        }
        if evidence.has_setting(&["MPICH_OFI_", "MPICH_GPU_SUPPORT_ENABLED"]) {
            evidence.facts.insert("cray_mpich".into(), "1".into());
        }
        if let Some(library) = &evidence.library {
            let facts = &mut evidence.facts;
            facts.insert("version".into(), library.version.clone());
            let mut providers = library.providers.clone();
            let listed = RULES.lists("provider").flatten().map(|name| (*name).to_owned());
            if !providers.is_empty() {
                providers.extend(listed);
                facts.insert("providers".into(), providers.join(", "));
            }
            if library.has_cxi() {
                facts.insert("cxi_provider".into(), "1".into());
            }
            let sizes = [("tx_size", library.tx_size), ("rx_size", library.rx_size)];
            for (name, size) in sizes {
                facts.extend(size.map(|size| (name.to_owned(), size.to_string())));
            }
        }
        evidence
    }

    fn has_setting(&self, beginnings: &[&str]) -> bool {
        let mut names = self.settings.keys();
        names.any(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
    }

    /// Returns whether the file libfabric.conf counts before the environment.
    pub fn prefers_file(&self) -> bool {
        self.raw("FI_PREFER_SYSCONFIG").and_then(boolean) == Some(true)
    }

    /// Returns the version of libfabric, as a number.
    pub fn version(&self) -> Option<i128> {
        dotted(self.facts.get("version")?)
    }

    /// Returns the type of a setting.
    pub fn parameter(&self, name: &str) -> Option<ParameterType> {
        self.library.as_ref()?.names.get(name).copied()
    }

    /// Returns whether libfabric knows this name.
    pub fn knows(&self, name: &str) -> bool {
        self.parameter(name).is_some() || RULES.has("unreported", name)
    }
}

impl LibfabricAnswer {
    /// Returns whether it has a cxi provider.
    pub fn has_cxi(&self) -> bool {
        self.names.keys().any(|name| name.starts_with("FI_CXI_"))
    }
}
