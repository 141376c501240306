//! The file of PALS about a parallel program, which the variable PALS_APINFO names (jobs.md 1.6).

use facts::user_file;

/// The version that is understood.
const VERSION: i32 = 5;

/// Offset of the table of processes in the header.
const PROCESSES: usize = 64;

/// Offset of the table of nodes in the header.
const NODES: usize = 88;

/// Offset of the index of the node in a process.
const NODE_OF_PROCESS: usize = 8;

/// Offset of the name in a node.
const NAME_OF_NODE: usize = 4;

/// The longest name of a node, in bytes.
const LONGEST_NAME: usize = 64;

/// The largest file, in bytes: 65,536 nodes with 64 processes each have less.
const LARGEST_FILE: u64 = 64 << 20;

/// Returns the hosts of the processes, by rank. There are none in a file that is missing, of
/// another version, or incomplete.
pub fn hosts(path: &str) -> Option<Vec<String>> {
    let bytes = user_file::bytes(path.as_ref(), LARGEST_FILE).ok()?;
    hosts_of(&bytes)
}

fn hosts_of(bytes: &[u8]) -> Option<Vec<String>> {
    if number(bytes, 0)? != VERSION {
        return None;
    }
    let processes = count(bytes, PROCESSES).filter(|count| *count > 0)?;
    (0..processes).map(|rank| host(bytes, rank)).collect()
}

/// Returns the host of the process with this rank.
fn host(bytes: &[u8], rank: usize) -> Option<String> {
    let process = record(bytes, PROCESSES, rank)?;
    let node = number(process, NODE_OF_PROCESS)?.try_into().ok()?;
    let name = record(bytes, NODES, node)?.get(NAME_OF_NODE..)?;
    let name = &name[..name.len().min(LONGEST_NAME)];
    let name = name.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| name.to_owned())
}

/// Returns record `index` of the table that the header describes at `group`: size of a record,
/// offset of the first one, their number.
fn record(bytes: &[u8], group: usize, index: usize) -> Option<&[u8]> {
    let [size, offset] = [group, group + 8].map(|at| {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_ne_bytes(bytes)).ok()
    });
    let (size, offset) = (size?, offset?);
    let start = offset.checked_add(size.checked_mul(index)?)?;
    let record = bytes.get(start..start.checked_add(size)?)?;
    (index < count(bytes, group)?).then_some(record)
}

/// Returns the number of records of the table that the header describes at `group`.
fn count(bytes: &[u8], group: usize) -> Option<usize> {
    usize::try_from(number(bytes, group + 16)?).ok()
}

/// Returns the integer at `offset`, in the byte order of the machine.
fn number(bytes: &[u8], offset: usize) -> Option<i32> {
    let bytes = bytes.get(offset..offset + 4)?;
    bytes.try_into().ok().map(i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a file with two nodes. The process with rank 0 is on the second one. Records are
    /// larger than in jobs.md 1.6.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; 160 + 2 * 16 + 2 * 72];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        put(0, &5_i32.to_ne_bytes());
        for (group, size, offset) in [(64, 16_u64, 160_u64), (88, 72, 192)] {
            put(group, &size.to_ne_bytes());
            put(group + 8, &offset.to_ne_bytes());
            put(group + 16, &2_i32.to_ne_bytes());
        }
        put(160 + 8, &1_i32.to_ne_bytes());
        put(192 + 4, b"nid000001");
        put(192 + 72 + 4, b"nid000002");
        bytes
    }

    #[test]
    fn finds_hosts_by_rank() {
        let hosts_of_ranks = ["nid000002", "nid000001"].map(str::to_owned).to_vec();
        assert_eq!(hosts_of(&file()), Some(hosts_of_ranks.clone()));
        let mut written = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut written, &file()).unwrap();
        let path = written.path().to_str().unwrap();
        assert_eq!(hosts(path), Some(hosts_of_ranks));
        assert_eq!(hosts("/nowhere"), None);
    }

    #[test]
    fn refuses_other_version_and_offsets_outside_the_file() {
        for (at, value) in [(0, 4_i32), (72, 10_000), (80, 0), (168, 2), (168, -1), (96, -1)] {
            let mut bytes = file();
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(hosts_of(&bytes), None, "{value} at {at}");
        }
        for end in 0..192 + 72 {
            assert_eq!(hosts_of(&file()[..end]), None, "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn survives_altered_files(at in 0_usize..336, byte: u8, end in 0_usize..337) {
            let mut bytes = file();
            bytes[at] = byte;
            let _ = hosts_of(&bytes[..end.min(bytes.len())]);
        }
    }
}
