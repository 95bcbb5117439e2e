//! Corrects entries of lists that hosts would refuse.
//!
//! Because of a single entry that does not follow MCP, e.g. with a description that is `null`, hosts built with the
//! official SDKs refuse a whole list. The kernel's list contains the entries of all servers.

use mgp_types::{Object, Payload, differs_only_in_case};

use super::list_cache::ListKind;
use crate::server_answer::retain_members;

/// Returns an entry without the members that hosts would refuse. Adds a name if the entry has none.
pub(super) fn fit_entry(kind: ListKind, entry: Payload) -> Payload {
    if kind == ListKind::Skills {
        return entry;
    }
    let Ok(mut members) = entry.get::<Object>() else { return entry };
    if fit_members(kind, &mut members) { Payload::of(&members).unwrap_or(entry) } else { entry }
}

/// Corrects the members of an entry. Returns `false` if no correction was necessary.
fn fit_members(kind: ListKind, entry: &mut Object) -> bool {
    let mut is_changed = remove_unfit(entry);
    for (name, required) in [("arguments", "name"), ("icons", "src")] {
        if let Some(fitted) = entry.get(name).and_then(|list| fit_list(list, required)) {
            entry.insert(name, fitted);
            is_changed = true;
        }
    }
    if let Some(fitted) = entry.get("annotations").and_then(|hints| fit_object(hints.clone())) {
        entry.insert("annotations", fitted);
        is_changed = true;
    }
    let uri = match kind {
        ListKind::Resources => "uri",
        ListKind::Templates => "uriTemplate",
        ListKind::Prompts | ListKind::Skills => return is_changed,
    };
    if entry.get("name").is_none()
        && let Ok(Some(uri)) = entry.decode::<String>(uri)
    {
        let last = uri.rsplit(['/', ':']).find(|part| !part.is_empty());
        // Ignore the result, because a text can always be written as JSON.
        let _ = entry.encode("name", last.unwrap_or(&uri));
        is_changed = true;
    }
    is_changed
}

/// The members of entries that hosts read. Many hosts in Go and C# ignore the case of member names, so they could read
/// a member that the kernel did not check because its name differs in case. [`remove_unfit`] removes such members.
const KNOWN: [&str; 16] = [
    "_meta",
    "annotations",
    "arguments",
    "audience",
    "description",
    "icons",
    "mimeType",
    "name",
    "priority",
    "required",
    "size",
    "sizes",
    "src",
    "title",
    "uri",
    "uriTemplate",
];

/// Removes the members whose value has the wrong type, or whose name differs from a known name only in case. Returns
/// whether any were removed.
fn remove_unfit(object: &mut Object) -> bool {
    let is_other = |name: &str| KNOWN.iter().any(|known| differs_only_in_case(name, known));
    retain_members(object, |name, value| is_fit(name, value.as_str()) && !is_other(name))
}

/// Returns whether a member has a value of the right type, according to the first character of its JSON.
fn is_fit(name: &str, value: &str) -> bool {
    match name {
        "name" | "title" | "description" | "mimeType" | "uri" | "uriTemplate" | "src" => {
            value.starts_with('"')
        }
        "size" | "priority" => value.starts_with(|first: char| first.is_ascii_digit()),
        "required" => matches!(value, "true" | "false"),
        "annotations" | "_meta" => value.starts_with('{'),
        "icons" | "arguments" | "audience" | "sizes" => value.starts_with('['),
        _ => value != "null",
    }
}

/// Returns an object without its unfit members (see [`remove_unfit`]); `None` if all its members are fit.
fn fit_object(object: Payload) -> Option<Payload> {
    let mut members: Object = object.get().ok()?;
    remove_unfit(&mut members).then(|| Payload::of(&members).unwrap_or(object))
}

/// Returns a list of objects without their unfit members, and without the objects that lack the required member.
/// Returns `None` if the list stays as it is.
fn fit_list(list: &Payload, required: &str) -> Option<Payload> {
    let elements: Vec<Payload> = list.get().ok()?;
    let fit = |element: &Payload| fit_object(element.clone()).unwrap_or_else(|| element.clone());
    let has_required = |element: &Payload| {
        element.get::<Object>().is_ok_and(|members| members.get(required).is_some())
    };
    let fitted: Vec<_> = elements.iter().map(fit).filter(has_required).collect();
    if fitted == elements { None } else { Payload::of(&fitted).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_hosts_refuse_together_with_the_list_is_corrected() {
        use ListKind::{Prompts, Resources, Templates};
        for (kind, entry, expected) in [
            (
                Resources,
                r#"{"uri":"file:///a/b.txt","description":null,"mimeType":5,"x":1}"#,
                r#"{"uri":"file:///a/b.txt","x":1,"name":"b.txt"}"#,
            ),
            (
                Resources,
                r#"{"uri":"x:1","name":"n","annotations":{"audience":null,"priority":1}}"#,
                r#"{"uri":"x:1","name":"n","annotations":{"priority":1}}"#,
            ),
            (
                Templates,
                r#"{"uriTemplate":"w://{city}/","name":null}"#,
                r#"{"uriTemplate":"w://{city}/","name":"{city}"}"#,
            ),
            (Prompts, r#"{"name":"p","arguments":null}"#, r#"{"name":"p"}"#),
            (
                Prompts,
                r#"{"name":"p","icons":[{"src":"a","SRC":5}]}"#,
                r#"{"name":"p","icons":[{"src":"a"}]}"#,
            ),
            (Resources, r#"{"uri":"x:1","URI":"x:2","name":"n"}"#, r#"{"uri":"x:1","name":"n"}"#),
            (
                Prompts,
                r#"{"name":"p","arguments":[{"name":"a","required":null},{"title":"t"},5]}"#,
                r#"{"name":"p","arguments":[{"name":"a"}]}"#,
            ),
        ] {
            let fitted = fit_entry(kind, Payload::from_trusted(entry));
            assert_eq!(fitted.as_str(), expected);
        }
        for (kind, entry) in [
            (Prompts, r#"{"name":"p", "arguments":[{"name":"a","required":true}]}"#),
            (Resources, r#"{"uri":"x:1", "name":"n","size":5,"_meta":{"a":null},"icons":[]}"#),
            (Resources, "7"),
        ] {
            assert_eq!(fit_entry(kind, Payload::from_trusted(entry)).as_str(), entry);
        }
    }
}
