//! Error flags that the driver has masked (health.md 2.5.1).

use std::collections::BTreeMap;

use super::files::Files;

/// Directory of the blocks.
const DIRECTORY: &str = "err_flgs_irqa";

/// The masked flags of a NIC: for each block, groups of 32 bits, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorMasks(BTreeMap<String, Vec<u32>>);

impl ErrorMasks {
    /// Reads the masks of all blocks. Blocks whose mask cannot be read are left out.
    pub fn read(files: &Files) -> Self {
        let blocks = files.entries(DIRECTORY).into_iter();
        let read = |block: String| {
            let text = files.text(&format!("{DIRECTORY}/{block}/mask"))?;
            let groups = text.split(',').rev();
            let groups: Result<_, _> = groups.map(|group| u32::from_str_radix(group, 16)).collect();
            Some((block, groups.ok()?))
        };
        Self(blocks.filter_map(read).collect())
    }

    /// The flags that are masked in `later` and not here, as block and bit. Blocks that either side
    /// lacks are left out.
    pub fn masked_since(&self, later: &Self) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        for (block, before) in &self.0 {
            let groups = before.iter().zip(later.0.get(block).into_iter().flatten());
            for (group, (before, after)) in (0..).zip(groups) {
                let added = after & !before;
                let bits = (0..32).filter(|bit| added >> bit & 1 != 0);
                found.extend(bits.map(|bit| (block.clone(), 32 * group + bit)));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(block_pairs: &[(&str, &str)]) -> ErrorMasks {
        let root = tempfile::tempdir().unwrap();
        for (block, text) in block_pairs {
            let device = root.path().join("sys/class/cxi/cxi0/device");
            let directory = device.join(DIRECTORY).join(block);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("mask"), text).unwrap();
        }
        ErrorMasks::read(&Files::new(root.path(), "cxi0"))
    }

    #[test]
    fn finds_bits_that_were_added() {
        let before = masks(&[
            ("atu", "000000c0,00000000\n"),
            ("lpe", "00000000,00642000\n"),
            ("rmu", "unreadable\n"),
        ]);
        let after = masks(&[
            ("atu", "000000c2,00000000\n"),
            ("lpe", "00000000,00252001\n"),
            ("rmu", "000c0000,00000000\n"),
        ]);
        let added = [("atu", 33), ("lpe", 0), ("lpe", 16)];
        let added: Vec<_> = added.map(|(block, bit)| (block.to_owned(), bit)).into();
        assert_eq!(before.masked_since(&after), added);
        assert_eq!(before.masked_since(&before), []);
        assert_eq!(ErrorMasks::default().masked_since(&after), []);
    }
}
