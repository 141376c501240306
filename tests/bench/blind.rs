//! What a blind trial says of each planted fault.

/// What a survey says about a planted fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Right,
    Nobody,
    /// Parts that are in the one that is slow, or around it.
    WrongPlace,
    Innocent,
}

/// The columns of a table.
pub const HEADS: [(Judgement, &str); 4] = [
    (Judgement::Right, "right"),
    (Judgement::Nobody, "nobody"),
    (Judgement::WrongPlace, "wrong place"),
    (Judgement::Innocent, "innocent named"),
];

/// The heads of the columns.
pub fn heads() -> String {
    HEADS.iter().map(|(_, head)| format!("  {head}")).collect()
}

/// Returns how often each judgement is among these, in columns.
pub fn counts(judgements: &[Judgement]) -> String {
    let count = |(judgement, head): &(Judgement, &str)| {
        let count = judgements.iter().filter(|own| *own == judgement).count();
        format!("  {count:>width$}", width = head.len())
    };
    HEADS.iter().map(count).collect()
}

pub fn name(judgement: Judgement) -> &'static str {
    let head = HEADS.iter().find(|(candidate, _)| *candidate == judgement);
    head.map_or("", |(_, head)| head)
}
