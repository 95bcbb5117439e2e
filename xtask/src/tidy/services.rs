//! The rule of `tidy` about the services (layers) that a call through the kernel passes: docs/governance.md lists all
//! of them, and there are at most [`MAX_SERVICES`].

use super::Violation;
use crate::tidy::source::Source;
use std::collections::BTreeSet;

/// The document that contains the list of services.
const PAGE: &str = "docs/governance.md";

/// The heading of the list of services in this document.
const HEADING: &str = "### Services of a kernel's call\n";

/// The maximum number of services that a call through the kernel passes.
const MAX_SERVICES: usize = 28;

/// Refuses a list of services that is too long or has wrong counts. The list names a source file for each service.
/// Refuses a service that is not in its file, and a layer in such a file that is not in the list.
pub(super) fn listed(page: Option<&str>, sources: &[Source]) -> Vec<Violation> {
    let section = page.unwrap_or_default().split_once(HEADING).map(|(_, rest)| rest);
    let Some(section) = section.map(|rest| rest.split("\n#").next().unwrap_or(rest)) else {
        return vec![Violation::new(PAGE, format!("has no section `{}`", HEADING.trim()))];
    };
    let mut found = Vec::new();
    let mut refuse = |what: String| found.push(Violation::new(PAGE, what));
    let mut files = BTreeSet::new();
    let mut total = 0;
    for line in section.lines().filter_map(|line| line.strip_prefix("- ")) {
        let Some((head, names)) = line.split_once("): ") else {
            refuse(format!("`{line}` is not COUNT of PART (`FILE`): SERVICES"));
            continue;
        };
        let own: Vec<_> = quoted(head).filter(|name| name.contains('/')).collect();
        let texts: Vec<_> = sources.iter().filter(|file| own.contains(&&*file.path)).collect();
        for name in quoted(names) {
            if !texts.iter().any(|file| words(&file.code).any(|word| word == name)) {
                refuse(format!("`{name}` is not in {}", own.join(", ")));
            }
        }
        let count = names.split(", ").count();
        if head.split(' ').next() != Some(&*count.to_string()) {
            refuse(format!("`{head})` has {count} services"));
        }
        total += count;
        files.extend(own);
    }
    if total > MAX_SERVICES || !section.contains(&format!("passes {total} services")) {
        refuse(format!("the list has {total} services, of at most {MAX_SERVICES}"));
    }
    for file in sources.iter().filter(|file| files.contains(&*file.path)) {
        let layers = words(&file.code).filter(|word| word.len() > 5 && word.ends_with("Layer"));
        for layer in layers.collect::<BTreeSet<_>>() {
            if !quoted(section).any(|name| name == layer) {
                refuse(format!("`{layer}` of {} is not in the section", file.path));
            }
        }
    }
    found
}

/// Returns the parts of a text that are in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "ServiceBuilder::new().layer(TraceLayer::new()).layer(AuditLayer).service(leaf)";

    #[track_caller]
    fn check(list: &str, expected: &[&str]) {
        let page = format!("## A\n\n{HEADING}\n{list}\n\n## B\n");
        let sources = [Source::new("a/stack.rs".to_owned(), CODE.to_owned())];
        let found: Vec<_> = listed(Some(&page), &sources).iter().map(ToString::to_string).collect();
        let expected: Vec<_> = expected.iter().map(|what| format!("{PAGE}: {what}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_layer_that_is_not_listed_is_refused() {
        check(
            "A call passes 1 services:\n\n- 1 of a (`a/stack.rs`): `TraceLayer`.",
            &["`AuditLayer` of a/stack.rs is not in the section"],
        );
        check(
            "A call passes 3 services:\n\n- 3 of a (`a/stack.rs`): `TraceLayer`, `AuditLayer`, `RateLayer`.",
            &["`RateLayer` is not in a/stack.rs"],
        );
    }

    #[test]
    fn a_call_that_passes_too_many_services_is_refused() {
        let names = vec!["`TraceLayer`, `AuditLayer`"; 15].join(", ");
        check(
            &format!("A call passes 30 services:\n\n- 30 of a (`a/stack.rs`): {names}."),
            &["the list has 30 services, of at most 28"],
        );
        check(
            "A call passes 1 services:\n\n- 1 of a (`a/stack.rs`): `TraceLayer`, `AuditLayer`.",
            &["`1 of a (`a/stack.rs`)` has 2 services", "the list has 2 services, of at most 28"],
        );
    }
}
