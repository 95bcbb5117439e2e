//! Compares the structure of two JSON Schemas.

use std::collections::{BTreeSet, HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::keywords::REFERENCES;
use super::{Bump, Change, keywords};

/// The maximum depth of schemas and references that are compared; deeper parts are only compared for equality.
const MAX_DEPTH: usize = 32;

/// The maximum number of pairs of schemas that are compared in detail. References can repeat parts, so even short
/// schemas can have very many pairs.
const MAX_SCHEMAS: usize = 20_000;

/// The purpose for which a tool uses a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The schema is for arguments: callers write the values.
    Input,
    /// The schema is for results: callers read the values.
    Output,
}

/// The relation between the values that the new schema allows and those that the old one allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Some valid values are no longer valid.
    Narrower,
    /// More values are valid.
    Wider,
    /// Some values are no longer valid and others are newly valid, or the relation cannot be determined.
    Other,
    /// The same values are valid; only a text changed.
    Text,
}

/// A whole schema, within which references are resolved.
struct Root<'a> {
    schema: &'a Value,
    /// The parts of the schema that have a name of their own: `#` and the anchor, or the `$id`.
    named: HashMap<String, &'a Value>,
}

pub(super) struct SchemaDiff<'a> {
    old_root: Root<'a>,
    new_root: Root<'a>,
    side: Side,
    compared: usize,
    /// The pairs of definitions to which references have led so far. Each pair is compared only once, because
    /// definitions can be recursive.
    visited: HashSet<(*const Value, *const Value)>,
    changes: Vec<Change>,
}

/// The keywords that this module compares itself, and those that have no effect of their own on the valid values.
#[rustfmt::skip]
const STRUCTURE: &[&str] = &[
    "$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "$schema", "$id", "$anchor",
    "$dynamicAnchor", "$recursiveAnchor", "properties", "required", "additionalProperties", "items",
    "prefixItems", "anyOf", "oneOf", "allOf",
];

static ANYTHING: Value = Value::Bool(true);

impl<'a> Root<'a> {
    fn new(schema: &'a Value) -> Self {
        let mut named = HashMap::new();
        let mut parts = vec![schema];
        while let Some(part) = parts.pop() {
            let text = |keyword: &str| part.get(keyword).and_then(Value::as_str);
            let anchors = [text("$anchor"), text("$dynamicAnchor")].into_iter().flatten();
            let names = anchors.map(|anchor| format!("#{anchor}"));
            for name in names.chain(text("$id").map(|id| id.trim_end_matches('#').to_owned())) {
                named.entry(name).or_insert(part);
            }
            match part {
                Value::Array(items) => parts.extend(items),
                Value::Object(members) => parts.extend(members.values()),
                _ => {}
            }
        }
        Self { schema, named }
    }

    /// Returns the schema to which a local reference points; `None` if the schema has no local reference.
    fn target(&self, schema: &Value) -> Option<&'a Value> {
        let reference = REFERENCES.iter().find_map(|keyword| schema.get(*keyword)?.as_str())?;
        let (id, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let part = if id.is_empty() { self.schema } else { *self.named.get(id)? };
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        part.pointer(&fragment).or_else(|| self.named.get(&format!("#{fragment}")).copied())
    }
}

impl<'a> SchemaDiff<'a> {
    pub(super) fn of(old: &'a Value, new: &'a Value, side: Side, path: &str) -> Vec<Change> {
        let mut diff = Self {
            old_root: Root::new(old),
            new_root: Root::new(new),
            side,
            compared: 0,
            visited: HashSet::new(),
            changes: Vec::new(),
        };
        diff.compare(old, new, path, 0);
        diff.changes
    }

    fn compare(&mut self, old: &'a Value, new: &'a Value, path: &str, depth: usize) {
        self.compared += 1;
        if depth > MAX_DEPTH || self.compared > MAX_SCHEMAS {
            if old != new {
                self.report(Relation::Other, path, "the schema changed");
            }
            return;
        }
        if self.compare_alternatives(old, new, path, depth) {
            return;
        }
        let targets = (self.old_root.target(old), self.new_root.target(new));
        if targets != (None, None) {
            self.compare_references(old, new, targets, path, depth);
            return;
        }
        // A reference to another document has no target that could be compared.
        for keyword in REFERENCES {
            if old.get(*keyword) != new.get(*keyword) {
                let path = format!("{path}/{keyword}");
                self.report(Relation::Other, &path, "the reference changed");
            }
        }
        match (old, new) {
            _ if old == new && !old.is_object() => {}
            (Value::Object(before), Value::Object(after)) => {
                self.compare_objects(before, after, path, depth);
            }
            _ if accepts_all(old) && accepts_all(new) => {}
            (_, Value::Bool(false)) => {
                self.report(Relation::Narrower, path, "no value is valid any more");
            }
            (Value::Bool(false), _) => self.report(Relation::Wider, path, "values become valid"),
            (_, _) if accepts_all(new) => {
                self.report(Relation::Wider, path, "any value becomes valid");
            }
            (_, _) if accepts_all(old) => {
                self.report(Relation::Narrower, path, "values are restricted");
            }
            _ => self.report(Relation::Other, path, "the schema changed"),
        }
    }

    /// Compares two schemas of which at least one refers to another schema: the referenced schemas, and the members
    /// beside the references, which restrict the values too.
    fn compare_references(
        &mut self,
        old: &'a Value,
        new: &'a Value,
        (old_target, new_target): (Option<&'a Value>, Option<&'a Value>),
        path: &str,
        depth: usize,
    ) {
        if let (Some(_), Some(_), Some(old), Some(new)) =
            (old_target, new_target, old.as_object(), new.as_object())
        {
            self.compare_objects(old, new, path, depth);
        } else {
            let restricts = |schema: &Value| schema.as_object().is_some_and(keywords::restrict);
            let is_changed = |schema, target: Option<&Value>| target.is_some() && restricts(schema);
            if is_changed(old, old_target) || is_changed(new, new_target) {
                self.report(Relation::Other, path, "the members beside a reference changed");
            }
        }
        let (old, new) = (old_target.unwrap_or(old), new_target.unwrap_or(new));
        if self.visited.insert((old, new)) {
            self.compare(old, new, path, depth + 1);
        }
    }

    /// Compares a schema with a list of alternatives that contains the same schema, e.g. with `anyOf` of itself and
    /// `null`: only the other alternatives are added or removed. Returns `false` if the schemas are not such a pair.
    fn compare_alternatives(
        &mut self,
        old: &'a Value,
        new: &'a Value,
        path: &str,
        depth: usize,
    ) -> bool {
        let (list, relation, what) =
            match (keywords::alternatives(old), keywords::alternatives(new)) {
                (None, Some(list)) => (list, Relation::Wider, "added"),
                (Some(list), None) => (list, Relation::Narrower, "removed"),
                _ => return false,
            };
        let pair = |part: &'a Value| {
            if relation == Relation::Wider { (old, part) } else { (part, new) }
        };
        let found = list.iter().position(|part| {
            let (old, new) = pair(part);
            let old_target = self.old_root.target(old).unwrap_or(old);
            let new_target = self.new_root.target(new).unwrap_or(new);
            keywords::are_alike(old, new) || keywords::are_alike(old_target, new_target)
        });
        let Some(found) = found else { return false };
        let list_path = format!("{path}/anyOf");
        let part_path = format!("{list_path}/{found}");
        let (before, after) = pair(&list[found]);
        let known = self.changes.len();
        self.compare(before, after, &part_path, depth + 1);
        // The default of the whole is beside the list of alternatives, so it is compared there; the default of a
        // definition to which both refer is not.
        let has_default = before.get("default").or(after.get("default")).is_some();
        let default_path = format!("{part_path}/default");
        let changes = self.changes.split_off(known).into_iter();
        self.changes.extend(changes.filter(|one| !has_default || one.path != default_path));
        if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
            self.compare_defaults(old, new, path);
        }
        for (_, part) in list.iter().enumerate().filter(|(at, _)| *at != found) {
            self.report(relation, &list_path, &format!("{} is {what}", describe(part)));
        }
        true
    }

    fn compare_objects(
        &mut self,
        old: &'a Map<String, Value>,
        new: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) {
        keywords::compare(old, new, &mut |relation, keyword, what| {
            let path =
                if keyword.is_empty() { path.to_owned() } else { format!("{path}/{keyword}") };
            self.report(relation, &path, &what);
        });
        self.compare_unknown(old, new, path);
        self.compare_defaults(old, new, path);
        self.compare_properties(old, new, path, depth);
        let part = |schema: &'a Map<String, Value>, keyword: &str| {
            schema.get(keyword).unwrap_or(&ANYTHING)
        };
        for keyword in ["additionalProperties", "items"] {
            if old.contains_key(keyword) || new.contains_key(keyword) {
                let path = format!("{path}/{keyword}");
                self.compare(part(old, keyword), part(new, keyword), &path, depth + 1);
            }
        }
        self.compare_tuples(old, new, path, depth);
        for (keyword, added) in
            [("allOf", Relation::Narrower), ("anyOf", Relation::Wider), ("oneOf", Relation::Other)]
        {
            self.compare_lists(
                old.get(keyword),
                new.get(keyword),
                added,
                &format!("{path}/{keyword}"),
                depth,
            );
        }
    }

    /// Compares the keywords that are neither part of the structure nor known to the module `keywords`.
    fn compare_unknown(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, path: &str) {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let is_known = STRUCTURE.contains(&name.as_str()) || keywords::is_known(name);
            if !is_known && old.get(name) != new.get(name) {
                let relation = keywords::relation_of_other(name, old, new);
                self.report(relation, &format!("{path}/{name}"), &format!("`{name}` changed"));
            }
        }
    }

    /// Compares default values: if one changes, a call that omits the argument may have a different effect.
    fn compare_defaults(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, path: &str) {
        let path = format!("{path}/default");
        match (old.get("default"), new.get("default")) {
            (old, new) if old == new => {}
            _ if self.side == Side::Output => {
                self.report(Relation::Text, &path, "the default changed");
            }
            (None, Some(_)) => self.push(Bump::Minor, &path, "a default is added"),
            (Some(_), None) => self.push(Bump::Major, &path, "the default is removed"),
            _ => self.push(Bump::Major, &path, "the default changed"),
        }
    }

    fn compare_properties(
        &mut self,
        old: &'a Map<String, Value>,
        new: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) {
        let none = || members(None);
        let before = old.get("properties").map_or_else(none, |map| members(Some(map)));
        let after = new.get("properties").map_or_else(none, |map| members(Some(map)));
        let (was_required, is_required) = (names(old.get("required")), names(new.get("required")));
        for (name, schema) in &before {
            let path = format!("{path}/properties/{}", escape(name));
            match after.iter().find(|(other, _)| other == name) {
                Some((_, other)) => self.compare(schema, other, &path, depth + 1),
                None => self.push(Bump::Major, &path, &format!("`{name}` is removed")),
            }
        }
        for (name, _) in after.iter().filter(|(name, _)| !before.iter().any(|(old, _)| old == name))
        {
            let path = format!("{path}/properties/{}", escape(name));
            let is_breaking = self.side == Side::Input && is_required.contains(name);
            let kind = if is_required.contains(name) { "required" } else { "optional" };
            let bump = if is_breaking { Bump::Major } else { Bump::Minor };
            self.push(bump, &path, &format!("`{name}` is added, {kind}"));
        }
        let in_both = |name: &&str| {
            before.iter().any(|(old, _)| old == name) && after.iter().any(|(new, _)| new == name)
                || !before.iter().chain(&after).any(|(known, _)| known == name)
        };
        let path = format!("{path}/required");
        for name in is_required.difference(&was_required).copied().filter(in_both) {
            self.report(Relation::Narrower, &path, &format!("`{name}` becomes required"));
        }
        for name in was_required.difference(&is_required).copied().filter(in_both) {
            self.report(Relation::Wider, &path, &format!("`{name}` is no longer required"));
        }
    }

    /// Compares the schemas of the first items of an array. Where one list is longer, its schemas are compared with the
    /// schema of the other items.
    fn compare_tuples(
        &mut self,
        old: &'a Map<String, Value>,
        new: &'a Map<String, Value>,
        path: &str,
        depth: usize,
    ) {
        let list = |schema: &'a Map<String, Value>| {
            schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
        };
        let others = |schema: &'a Map<String, Value>| schema.get("items").unwrap_or(&ANYTHING);
        let (before, after) = (list(old), list(new));
        for at in 0..before.len().max(after.len()) {
            let old = before.get(at).unwrap_or_else(|| others(old));
            let new = after.get(at).unwrap_or_else(|| others(new));
            self.compare(old, new, &format!("{path}/prefixItems/{at}"), depth + 1);
        }
    }

    /// Compares two lists of schemas, whose order has no meaning; `added` is the relation that is reported for a schema
    /// that only the new list has.
    fn compare_lists(
        &mut self,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
        added: Relation,
        path: &str,
        depth: usize,
    ) {
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map(Vec::as_slice);
        let removed = match added {
            Relation::Narrower => Relation::Wider,
            Relation::Wider => Relation::Narrower,
            // A value that fits two alternatives of `oneOf` is not valid, so each of them can also exclude values.
            other => other,
        };
        match (list(old), list(new)) {
            (None, None) => {}
            // The keyword lists alternative or additional schemas: where it is added, fewer values are valid, and where
            // it is removed, more values are valid.
            (None, Some(_)) => self.report(Relation::Narrower, path, "it is added"),
            (Some(_), None) => self.report(Relation::Wider, path, "it is removed"),
            (Some(old), Some(new)) => {
                // Equal parts are compared as well: the schemas to which they refer can differ.
                for (at, old, new) in pairs(old, new) {
                    self.compare(old, new, &format!("{path}/{at}"), depth + 1);
                }
                if old.len() == new.len() {
                    return;
                }
                for part in new.iter().filter(|part| !old.contains(part)) {
                    self.report(added, path, &format!("{} is added", describe(part)));
                }
                for part in old.iter().filter(|part| !new.contains(part)) {
                    self.report(removed, path, &format!("{} is removed", describe(part)));
                }
            }
        }
    }

    fn report(&mut self, relation: Relation, path: &str, what: &str) {
        let bump = match (relation, self.side) {
            (Relation::Text, _) => Bump::Patch,
            (Relation::Wider, Side::Input) | (Relation::Narrower, Side::Output) => Bump::Minor,
            _ => Bump::Major,
        };
        self.push(bump, path, what);
    }

    fn push(&mut self, bump: Bump, path: &str, what: &str) {
        self.changes.push(super::change(bump, path, what));
    }
}

fn accepts_all(schema: &Value) -> bool {
    match schema {
        Value::Bool(all) => *all,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns the pairs of schemas in two lists that belong together, each with its index in the old list: the equal ones,
/// and, if the lists have the same length, the others in their order.
fn pairs<'a>(old: &'a [Value], new: &'a [Value]) -> Vec<(usize, &'a Value, &'a Value)> {
    let mut others: Vec<&Value> = new.iter().collect();
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for (at, part) in old.iter().enumerate() {
        match others.iter().position(|other| *other == part) {
            Some(found) => pairs.push((at, part, others.remove(found))),
            None => left.push((at, part)),
        }
    }
    if old.len() == new.len() {
        pairs.extend(left.into_iter().zip(others).map(|((at, old), new)| (at, old, new)));
    }
    pairs
}

fn members(map: Option<&Value>) -> Vec<(&str, &Value)> {
    let map = map.and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema)).collect()
}

fn names(list: Option<&Value>) -> BTreeSet<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn describe(schema: &Value) -> String {
    let text = schema.to_string();
    format!("`{}`", mgp_types::clip(&text, 80))
}
