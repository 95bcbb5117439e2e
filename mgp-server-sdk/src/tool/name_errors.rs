//! The errors for a call of an unknown or disabled tool (MGP §14.3: 4001, 4002).

use mgp_types::{ErrorCode, RpcError};

/// The maximum number of known names that are compared with an unknown name.
const MAX_COMPARED: usize = 1_000;

pub(super) fn disabled(name: &str) -> RpcError {
    let message = format!("the tool `{name}` is disabled by its server; use another listed one");
    RpcError::new(ErrorCode::TOOL_DISABLED, message)
}

/// Returns the error for an unknown tool. Its message proposes the most similar of the known names, or refers to the
/// list of tools if none is similar.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> RpcError {
    let shown = mgp_types::clip(name, 80);
    let max_distance = |known: &str| known.len().div_ceil(3);
    let near = known
        .filter(|known| known.len().abs_diff(shown.len()) <= max_distance(known))
        .take(MAX_COMPARED)
        .map(|known| (distance(&shown, known), known))
        .filter(|(distance, known)| *distance <= max_distance(known))
        .min();
    let hint = near.map_or_else(
        || "use a name from `tools/list`".to_owned(),
        |(_, known)| format!("did you mean `{known}`?"),
    );
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, format!("unknown tool `{shown}`; {hint}"))
}

/// Returns the number of characters to insert, remove or replace to get from one text to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
