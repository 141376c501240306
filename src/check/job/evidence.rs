//! What is known of a job before it is judged: settings, what libfabric says, facts of the node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::table::RULES;
use super::values::{boolean, dotted, entries, is_like};

/// Value of a secret.
pub const SECRET: &str = "(not shown)";

/// Facts that settings with these beginnings imply.
const IMPLIED: [(&str, &str); 5] = [
    ("nccl", "NCCL_"),
    ("nccl", "OFI_NCCL_"),
    ("nccl", "RCCL_"),
    ("cray_mpich", "MPICH_OFI_"),
    ("cray_mpich", "MPICH_GPU_SUPPORT_ENABLED"),
];

/// What is known of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobEvidence {
    /// Names and values of the settings in its environment.
    pub settings: BTreeMap<String, String>,
    /// Settings of the file libfabric.conf, by name.
    pub conf: BTreeMap<String, String>,
    /// Facts by name in small letters, as `settings.txt` uses them.
    pub facts: BTreeMap<String, String>,
    /// The file of its libfabric, and how it was found.
    pub file: String,
    pub origin: String,
    /// Whether another process of the node asks the file.
    pub is_asked_elsewhere: bool,
    /// What its libfabric says; `None` if it could not be asked.
    pub library: Option<LibfabricAnswer>,
    /// What other libfabrics say that the process has loaded.
    pub other_libraries: Vec<LibfabricAnswer>,
    /// Why a libfabric was not asked.
    pub untested: Vec<String>,
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

impl JobEvidence {
    /// Returns what is known from this environment. Values of secrets are left out.
    pub fn new(
        environment: impl IntoIterator<Item = (String, String)>,
        facts: BTreeMap<String, String>,
    ) -> Self {
        let mut evidence = Self { facts, ..Self::default() };
        for (name, value) in environment {
            if RULES.has("family", &name) {
                let is_secret = RULES.has("secret", &name);
                // The first line of the text is one line.
                let value = if is_secret { SECRET.into() } else { value.replace('\n', " ") };
                evidence.settings.insert(name, value);
            } else if name == "SLURM_JOB_ID" {
                evidence.facts.insert(name, value);
            }
        }
        for (fact, beginning) in IMPLIED {
            if evidence.settings.keys().any(|name| name.starts_with(beginning)) {
                evidence.facts.insert(fact.into(), "1".into());
            }
        }
        evidence
    }

    /// Adds what the library says, and the settings of libfabric.conf, which count where the
    /// environment has none. The file keeps the settings that are not used.
    pub fn with_library(&self, library: Option<&LibfabricAnswer>) -> Self {
        let mut evidence = Self { library: library.cloned(), ..self.clone() };
        if let Some(library) = library {
            let providers = Some(library.providers.join(", ")).filter(|list| !list.is_empty());
            let more: Vec<&str> = RULES.list("provider").collect();
            let names = providers.as_ref().map(|list| format!("{list}, {}", more.join(", ")));
            let said = [
                ("libfabric", Some(library.path.clone())),
                ("version", Some(library.version.clone())),
                ("providers", providers),
                ("provider_names", names),
                ("cxi_provider", library.has_cxi().then(|| "1".into())),
                ("tx_size", library.tx_size.map(|size| size.to_string())),
                ("rx_size", library.rx_size.map(|size| size.to_string())),
            ];
            let said = said.into_iter().filter_map(|(name, text)| Some((name.into(), text?)));
            evidence.facts.extend(said);
        }
        // 1.17 does not read the file.
        if evidence.version() < Some(1018) {
            evidence.conf.clear();
        }
        let prefers = evidence.prefers_file();
        for (name, value) in &mut evidence.conf {
            match evidence.settings.get_mut(name) {
                Some(own) if prefers => std::mem::swap(own, value),
                Some(_) => {}
                None => drop(evidence.settings.insert(name.clone(), value.clone())),
            }
        }
        evidence
    }

    /// Whether the file libfabric.conf counts before the environment.
    pub fn prefers_file(&self) -> bool {
        self.raw("FI_PREFER_SYSCONFIG").and_then(boolean) == Some(true)
    }

    /// Whether libfabric has a cxi provider, or could not be asked.
    pub fn may_have_cxi(&self) -> bool {
        self.library.as_ref().is_none_or(LibfabricAnswer::has_cxi)
    }

    /// The version of libfabric, as a number.
    pub fn version(&self) -> Option<i128> {
        dotted(self.facts.get("version")?)
    }

    /// The type of a setting.
    pub fn parameter(&self, name: &str) -> Option<ParameterType> {
        self.library.as_ref()?.names.get(name).copied()
    }

    /// Whether libfabric or the plugin of NCCL knows a name like this one.
    pub fn knows(&self, name: &str) -> bool {
        self.names().any(|known| is_like(name, known)) || RULES.has("unreported", name)
    }

    /// The names that libfabric and the plugin of NCCL know.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let library_names = self.library.iter().flat_map(|library| library.names.keys());
        let plugin_names = self.facts.get("plugin_names").map_or("", String::as_str);
        library_names.map(String::as_str).chain(entries(plugin_names))
    }
}

impl LibfabricAnswer {
    /// Whether it has a cxi provider.
    pub fn has_cxi(&self) -> bool {
        self.names.keys().any(|name| name.starts_with("FI_CXI_"))
    }
}
