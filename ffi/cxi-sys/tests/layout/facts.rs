//! Access to the facts in `abi.json` (docs/reference/abi.md).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

static ABI: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(cxi_sys::testing::ABI).expect("abi.json is JSON"));

/// A member of a record, with its absolute place.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: String,
    pub type_name: String,
    pub byte_offset: u64,
    /// First bit and width, for bit-fields.
    pub bits: Option<(usize, usize)>,
    /// Bytes, for ordinary members.
    pub size: u64,
}

impl Member {
    /// Returns first bit and number of bits of a bit-field or an ordinary member.
    pub fn bit_range(&self) -> (usize, usize) {
        self.bits.unwrap_or((self.byte_offset as usize * 8, self.size as usize * 8))
    }
}

/// A structure or union.
pub struct Record {
    pub size: u64,
    pub align: u64,
    pub members: Vec<Member>,
}

/// The record `name`, without unnamed members.
pub fn record(name: &str) -> Record {
    let record = list("structs")
        .iter()
        .find(|record| record["name"] == name)
        .unwrap_or_else(|| panic!("abi.json has no record {name}"));
    let members = record["fields"].as_array().expect("fields").iter();
    Record {
        size: number(&record["size"]),
        align: number(&record["align"]),
        members: members.map(member).filter(|member| !member.name.is_empty()).collect(),
    }
}

fn member(field: &Value) -> Member {
    Member {
        name: text(&field["name"]),
        type_name: text(&field["type"]),
        byte_offset: number(&field["byte_offset"]),
        bits: field["bit_width"]
            .as_u64()
            .map(|width| (number(&field["bit_offset"]) as usize, width as usize)),
        size: field["size"].as_u64().unwrap_or(0),
    }
}

/// Returns every macro constant and enumerator.
pub fn constants() -> BTreeMap<String, u64> {
    let macros = ABI["constants"].as_object().expect("constants").values();
    let macros = macros
        .flat_map(|header| header.as_object().expect("header"))
        .filter_map(|(name, fact)| Some((name.clone(), fact["value"].as_u64()?)));
    let enumerators = list("enums").iter().flat_map(enumerators);
    macros.chain(enumerators).collect()
}

/// The enumerators of enum `name`.
pub fn enumeration(name: &str) -> Vec<(String, u64)> {
    let found = list("enums").iter().find(|fact| fact["name"] == name);
    enumerators(found.unwrap_or_else(|| panic!("abi.json has no enum {name}"))).collect()
}

fn enumerators(fact: &Value) -> impl Iterator<Item = (String, u64)> {
    let values = fact["values"].as_object().expect("values");
    values.iter().map(|(name, value)| (name.clone(), number(value)))
}

/// The number of functions that the library exports.
pub fn number_of_functions() -> usize {
    list("functions").len()
}

/// The symbol node of a function.
pub fn symbol_node(name: &str) -> String {
    text(&function(name)["version"])
}

fn function(name: &str) -> &'static Value {
    let function = list("functions").iter().find(|function| function["name"] == name);
    function.unwrap_or_else(|| panic!("abi.json has no function {name}"))
}

/// The prototype of a function as C text with single blanks.
pub fn prototype(name: &str) -> String {
    let function = function(name);
    let parameters: Vec<String> = function["params"]
        .as_array()
        .expect("params")
        .iter()
        .map(|parameter| format!("{} {}", text(&parameter["type"]), text(&parameter["name"])))
        .collect();
    let parameters = match parameters.as_slice() {
        [] => "void".to_owned(), // the parameter list of C for no parameters
        parameters => parameters.join(", "),
    };
    let c = format!("{} {name}({parameters})", text(&function["returns"]));
    c.replace("* ", "*")
}

fn list(key: &str) -> &'static Vec<Value> {
    ABI[key].as_array().expect(key)
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("number")
}
