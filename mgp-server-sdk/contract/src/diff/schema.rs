//! Compares the structure of two JSON Schemas.

use std::collections::{BTreeSet, HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::keywords::REFERENCES;
use super::normal::normal;
use super::{Bump, Change, keywords};

/// The maximum depth of schemas and references that are compared in one recursion. Deeper parts wait until it has
/// ended, so that the stack does not grow further.
const MAX_DEPTH: usize = 32;

/// The maximum number of pairs of schemas that are compared in detail; further pairs are only compared for equality.
/// References can repeat parts, so even short schemas can have very many pairs.
const MAX_SCHEMAS: usize = 20_000;

/// The maximum length, in bytes, of the path of a waiting part. A chain of references can be very long, and the path of
/// each of its schemas contains all names before it.
const MAX_PATH: usize = 2_000;

/// The maximum length of a `oneOf` whose schemas are compared with each other to find out if they are disjoint; a
/// longer list counts as not disjoint.
const MAX_DISJOINT: usize = 64;

/// The purpose for which a tool uses a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The schema is for arguments: callers write the values.
    Input,
    /// The schema is for results: callers read the values.
    Output,
}

/// The relation between the values that the new schema allows and the values that the old schema allows.
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

impl Relation {
    /// Returns the relation with the old and the new schema exchanged.
    fn reversed(self) -> Self {
        match self {
            Self::Narrower => Self::Wider,
            Self::Wider => Self::Narrower,
            other => other,
        }
    }
}

/// A whole schema, within which references are resolved.
struct Root<'a> {
    schema: &'a Value,
    /// The parts of the schema that references can name: the key is the `$id` of the part, or `#` and its anchor.
    named: HashMap<String, &'a Value>,
}

pub(super) struct SchemaDiff<'a> {
    old_root: Root<'a>,
    new_root: Root<'a>,
    side: Side,
    compared: usize,
    /// The pairs of referenced schemas that were compared before, each with the value that `is_exclusive` had. Each
    /// pair is compared only once, because definitions can refer to themselves.
    visited: HashSet<(*const Value, *const Value, bool)>,
    /// `true` within a `oneOf` whose schemas are not disjoint. There, a value that newly fits one schema can fit a
    /// second schema too, and the whole `oneOf` then refuses it. In the same way, a value that no longer fits one
    /// schema can become valid.
    is_exclusive: bool,
    /// The pairs of schemas below the maximum depth, which are compared later; each with its path and the value that
    /// `is_exclusive` had.
    postponed: Vec<(&'a Value, &'a Value, String, bool)>,
    changes: Vec<Change>,
}

/// The keywords that this module itself compares. Also keywords such as `$defs`, which alone do not affect which values
/// are valid.
#[rustfmt::skip]
const STRUCTURE: &[&str] = &[
    "$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "$schema", "$id", "$anchor",
    "$dynamicAnchor", "$recursiveAnchor", "properties", "required", "additionalProperties", "items",
    "prefixItems", "anyOf", "oneOf", "allOf",
];

/// The keywords that list schemas, each with the relation to report if a schema is added to the list. For `oneOf` the
/// relation is not known, because a value that fits two of its schemas is not valid.
const LISTS: &[(&str, Relation)] =
    &[("allOf", Relation::Narrower), ("anyOf", Relation::Wider), ("oneOf", Relation::Other)];

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

    /// Returns the schema to which a local reference points; `None` if the schema has no local reference, or one that
    /// leads to no schema.
    fn target(&self, schema: &Value) -> Option<&'a Value> {
        let reference = REFERENCES.iter().find_map(|keyword| schema.get(*keyword)?.as_str())?;
        let (id, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let part = if id.is_empty() { self.schema } else { *self.named.get(id)? };
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        part.pointer(&fragment).or_else(|| self.named.get(&format!("#{fragment}")).copied())
    }

    /// Returns whether the schemas of a list are pairwise disjoint, i.e. no value fits two of them.
    fn are_disjoint(&self, list: &[Value]) -> bool {
        let parts: Vec<&Value> = list.iter().map(|one| self.target(one).unwrap_or(one)).collect();
        parts.len() <= MAX_DISJOINT
            && parts
                .iter()
                .enumerate()
                .all(|(at, one)| parts[..at].iter().all(|other| keywords::are_disjoint(one, other)))
    }
}

impl<'a> SchemaDiff<'a> {
    /// Compares the schemas as they are and, if more than texts changed, also in their normal forms. Each of the two
    /// comparisons can report too much, but never too little, so the result with the smaller change is returned.
    pub(super) fn of(old: &Value, new: &Value, side: Side, path: &str) -> Vec<Change> {
        let highest = |changes: &[Change]| changes.iter().map(|change| change.bump).max();
        let changes = SchemaDiff::changes(old, new, side, path);
        if highest(&changes) <= Some(Bump::Patch) || [old, new].into_iter().any(can_lose_target) {
            return changes;
        }
        let mut others = SchemaDiff::changes(&normal(old), &normal(new), side, path);
        if highest(&others) >= highest(&changes) {
            return changes;
        }
        if others.is_empty() {
            let what = "the same values are described in another form";
            others.push(super::change(Bump::Patch, path, what));
        }
        others
    }

    fn changes(old: &'a Value, new: &'a Value, side: Side, path: &str) -> Vec<Change> {
        let mut diff = Self {
            old_root: Root::new(old),
            new_root: Root::new(new),
            side,
            compared: 0,
            visited: HashSet::new(),
            is_exclusive: false,
            postponed: Vec::new(),
            changes: Vec::new(),
        };
        diff.compare(old, new, path, 0);
        while let Some((old, new, path, is_exclusive)) = diff.postponed.pop() {
            diff.is_exclusive = is_exclusive;
            diff.compare(old, new, &path, 0);
        }
        diff.changes
    }

    fn compare(&mut self, old: &'a Value, new: &'a Value, path: &str, depth: usize) {
        self.compared += 1;
        if self.compared > MAX_SCHEMAS {
            if old != new {
                self.report(Relation::Other, path, "the schema changed");
            }
            return;
        }
        if depth > MAX_DEPTH {
            let path = mgp_types::clip(path, MAX_PATH);
            self.postponed.push((old, new, path, self.is_exclusive));
            return;
        }
        if LISTS.iter().any(|list| self.compare_with_list(*list, old, new, path, depth)) {
            return;
        }
        let targets = (self.old_root.target(old), self.new_root.target(new));
        if targets != (None, None) {
            self.compare_references(old, new, targets, path, depth);
            return;
        }
        // A reference to another document is not followed, so only its text can be compared.
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

    /// Compares two schemas, of which at least one has a reference. Compares the schemas to which they refer, and also
    /// their other members, because these restrict the values too.
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
        if self.visited.insert((old, new, self.is_exclusive)) {
            self.compare(old, new, path, depth + 1);
        }
    }

    /// Compares a schema with a list that contains the same schema, e.g. a schema that was wrapped in `anyOf` to permit
    /// `null` too. Only the other schemas of the list are then reported as added or removed. `added` is the relation to
    /// report for an added schema. Returns `false` if the two schemas are not such a pair.
    fn compare_with_list(
        &mut self,
        (keyword, added): (&str, Relation),
        old: &'a Value,
        new: &'a Value,
        path: &str,
        depth: usize,
    ) -> bool {
        let (list, is_new) = match (keywords::parts(old, keyword), keywords::parts(new, keyword)) {
            (None, Some(list)) => (list, true),
            (Some(list), None) => (list, false),
            _ => return false,
        };
        let (relation, what) =
            if is_new { (added, "added") } else { (added.reversed(), "removed") };
        let pair = |part: &'a Value| if is_new { (old, part) } else { (part, new) };
        let found = list.iter().position(|part| {
            let (old, new) = pair(part);
            let old_target = self.old_root.target(old).unwrap_or(old);
            let new_target = self.new_root.target(new).unwrap_or(new);
            keywords::are_alike(old, new) || keywords::are_alike(old_target, new_target)
        });
        let Some(found) = found else { return false };
        let list_path = format!("{path}/{keyword}");
        let part_path = format!("{list_path}/{found}");
        let (before, after) = pair(&list[found]);
        let known = self.changes.len();
        self.compare(before, after, &part_path, depth + 1);
        // If a text or a default moved out of the schema to become a neighbour of the list, `compare_texts` and
        // `compare_defaults` below compare it there. So the change that was found within the list is dropped. But the
        // default of a definition to which both sides refer has not moved.
        let has_default = before.get("default").or(after.get("default")).is_some();
        let is_beside = |one: &Change| {
            let member = one.path.strip_prefix(&*part_path).and_then(|rest| rest.strip_prefix('/'));
            member.is_some_and(|name| match name {
                "default" => has_default,
                name => one.bump == Bump::Patch && !name.contains('/'),
            })
        };
        let changes = self.changes.split_off(known).into_iter();
        self.changes.extend(changes.filter(|one| !is_beside(one)));
        if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
            self.compare_texts(old, new, path);
            self.compare_defaults(old, new, path);
        }
        for (_, part) in list.iter().enumerate().filter(|(at, _)| *at != found) {
            let relation = if is_new { relation } else { self.without(part, relation) };
            self.report(relation, &list_path, &format!("{} is {what}", describe(part)));
        }
        true
    }

    /// Returns the relation to report for a removed schema: `relation`, but [`Relation::Other`] instead of
    /// [`Relation::Wider`] if the schema describes members, because callers can no longer rely on these members.
    fn without(&self, part: &Value, relation: Relation) -> Relation {
        match self.old_root.target(part).unwrap_or(part).get("properties") {
            Some(_) if relation == Relation::Wider => Relation::Other,
            _ => relation,
        }
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
        for &(keyword, added) in LISTS {
            self.compare_lists(
                old.get(keyword),
                new.get(keyword),
                added,
                &format!("{path}/{keyword}"),
                depth,
            );
        }
    }

    /// Compares the keywords that are neither in [`STRUCTURE`] nor known to the module `keywords`.
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

    /// Compares the members, except the default, that do not affect which values are valid.
    fn compare_texts(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, path: &str) {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let is_text = !keywords::is_restriction(name)
                && name != "default"
                && !STRUCTURE.contains(&name.as_str());
            if is_text && old.get(name) != new.get(name) {
                let path = format!("{path}/{name}");
                self.report(Relation::Text, &path, &format!("`{name}` changed"));
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
        // A removed list, e.g. `anyOf`, might have contained another description of this member, which callers used so
        // far.
        let is_moved =
            LISTS.iter().any(|(list, _)| old.contains_key(*list) && !new.contains_key(*list));
        for (name, _) in after.iter().filter(|(name, _)| !before.iter().any(|(old, _)| old == name))
        {
            let path = format!("{path}/properties/{}", escape(name));
            let is_breaking = self.is_exclusive
                || self.side == Side::Input && (is_required.contains(name) || is_moved);
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

    /// Compares the `prefixItems` of two schemas of arrays. If one list is longer, its additional schemas are compared
    /// with the schema that the other side has for all further items.
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

    /// Compares the lists of schemas of one keyword, e.g. `anyOf`; their order has no meaning. `added` is the relation
    /// to report for a schema that only the new list has.
    fn compare_lists(
        &mut self,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
        added: Relation,
        path: &str,
        depth: usize,
    ) {
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map(Vec::as_slice);
        match (list(old), list(new)) {
            (None, None) => {}
            // A list restricts the values, so fewer values are valid once a schema has one, and more values once it is
            // removed.
            (None, Some(_)) => self.report(Relation::Narrower, path, "it is added"),
            (Some(old), None) => {
                let relation = |all, part| self.without(part, all);
                let relation = old.iter().fold(Relation::Wider, relation);
                self.report(relation, path, "it is removed");
            }
            (Some(old), Some(new)) => {
                // Equal schemas are compared too, because they can contain references to schemas that differ.
                let pairs = pairs(old, new);
                let was_exclusive = self.is_exclusive;
                self.is_exclusive |= added == Relation::Other
                    && !(self.old_root.are_disjoint(old) && self.new_root.are_disjoint(new));
                for &(at, old, new) in &pairs {
                    self.compare(old, new, &format!("{path}/{at}"), depth + 1);
                }
                self.is_exclusive = was_exclusive;
                // A schema that repeats another schema of the list changes nothing, except in `oneOf`, which refuses a
                // value that fits both copies.
                let is_repeated =
                    |part: &Value, list: &[Value]| added != Relation::Other && list.contains(part);
                let is_new = |part: &&Value| {
                    !is_repeated(part, old) && !pairs.iter().any(|pair| std::ptr::eq(pair.2, *part))
                };
                let is_gone = |part: &&Value| {
                    !is_repeated(part, new) && !pairs.iter().any(|pair| std::ptr::eq(pair.1, *part))
                };
                for part in new.iter().filter(is_new) {
                    self.report(added, path, &format!("{} is added", describe(part)));
                }
                for part in old.iter().filter(is_gone) {
                    let relation = self.without(part, added.reversed());
                    self.report(relation, path, &format!("{} is removed", describe(part)));
                }
            }
        }
    }

    fn report(&mut self, relation: Relation, path: &str, what: &str) {
        let bump = match (relation, self.side) {
            (Relation::Text, _) => Bump::Patch,
            (Relation::Wider, Side::Input) | (Relation::Narrower, Side::Output)
                if !self.is_exclusive =>
            {
                Bump::Minor
            }
            _ => Bump::Major,
        };
        self.push(bump, path, what);
    }

    fn push(&mut self, bump: Bump, path: &str, what: &str) {
        self.changes.push(super::change(bump, path, what));
    }
}

/// Returns whether a schema has a reference whose target can be missing in the normal form: a reference to a schema
/// within a list such as `anyOf`, to an `$id`, or to an anchor.
fn can_lose_target(schema: &Value) -> bool {
    let is_safe = |reference: &str| {
        reference == "#"
            || reference.starts_with("#/") && !reference.contains('%') && !reference.contains("Of/")
    };
    match schema {
        Value::Array(items) => items.iter().any(can_lose_target),
        Value::Object(members) => members.iter().any(|(name, value)| match value.as_str() {
            Some(text) => REFERENCES.contains(&name.as_str()) && !is_safe(text),
            None => can_lose_target(value),
        }),
        _ => false,
    }
}

fn accepts_all(schema: &Value) -> bool {
    match schema {
        Value::Bool(all) => *all,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns the pairs of schemas in two lists that correspond to each other, each with its index in the old list. These
/// are the equal schemas, then those that differ only in texts. If the lists have the same length, the remaining
/// schemas are paired in their order.
fn pairs<'a>(old: &'a [Value], new: &'a [Value]) -> Vec<(usize, &'a Value, &'a Value)> {
    let mut others: Vec<&Value> = new.iter().collect();
    let mut left: Vec<(usize, &Value)> = old.iter().enumerate().collect();
    let mut pairs = Vec::new();
    let tests: [fn(&Value, &Value) -> bool; 2] = [|old, new| old == new, keywords::are_alike];
    for is_pair in tests {
        left.retain(|&(at, part)| {
            let found = others.iter().position(|other| is_pair(part, other));
            pairs.extend(found.map(|found| (at, part, others.remove(found))));
            found.is_none()
        });
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
