//! The prose of the manual: the files of `docs/manual/` and their sections.

use std::fs;
use std::path::PathBuf;

/// The sections of one file, in order.
pub struct Prose {
    /// Name of the file, for error messages.
    pub file: String,
    /// Title and text of each section.
    pub sections: Vec<(String, String)>,
}

/// The directory of the prose.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/manual")
}

/// Reads the file `NAME.md`. Each section begins with a line `# TITLE`. The text before the first
/// section is for readers of the file.
///
/// # Errors
///
/// A file that cannot be read.
pub fn read(name: &str) -> Result<Prose, String> {
    let file = format!("{name}.md");
    let text = fs::read_to_string(directory().join(&file))
        .map_err(|error| format!("docs/manual/{file}: {error}"))?;
    let mut sections: Vec<(String, String)> = Vec::new();
    let mut in_example = false;
    for line in text.lines() {
        in_example ^= line.starts_with("```");
        match line.strip_prefix("# ") {
            Some(title) if !in_example => sections.push((title.to_owned(), String::new())),
            _ => {
                if let Some((_, text)) = sections.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    Ok(Prose { file, sections })
}

impl Prose {
    /// The text of the section with this title.
    pub fn find(&self, title: &str) -> Option<&str> {
        let mut sections = self.sections.iter();
        let (_, text) = sections.find(|(own, _)| own == title)?;
        Some(text.trim())
    }
}
