//! Tests of the wire macros.

#![expect(unreachable_pub, dead_code, reason = "the macros are written for public types")]

use super::*;
use crate::Payload;

record! {
    /// A record with every kind of member.
    pub(super) struct Sample {
        /// Required.
        req name: String,
        /// Renamed on the wire.
        opt input_schema as "inputSchema": Option<Payload>,
        /// A list.
        list side_effects: List<Colour>,
        /// Null if absent.
        nul expires_at: Option<u64>,
        /// Always written.
        def done: bool,
    }

    /// A record with a constant member.
    pub(super) struct Dog tagged "type" = "dog" {
        /// The volume.
        req loud: u64,
    }

    /// A record with required lists.
    pub(super) struct Lists {
        /// May be absent or null.
        seq blocks: Vec<u64>,
        /// May be null.
        req items read nullable: Vec<u64>,
    }

    /// A record without required members.
    pub(super) struct Empty {
        /// An object.
        opt maybe: Option<RawObject>,
    }
}

open_enum! {
    /// Colours.
    pub(super) enum Colour {
        /// Red.
        Red = "red" | "RED",
    }
}

string_enum! {
    /// Sides.
    pub(super) enum Side {
        /// Left.
        Left = "left",
    }
}

tagged! {
    /// Animals.
    pub(super) enum Animal by "type" {
        /// A dog.
        "dog" => Dog(Dog),
    }
}

#[track_caller]
fn check<T: serde::de::DeserializeOwned + serde::Serialize>(text: &str, expected: Option<&str>) {
    let value = serde_json::from_str::<T>(text);
    match (value, expected) {
        (Ok(value), Some(expected)) => assert_eq!(serde_json::to_string(&value).unwrap(), expected),
        (Err(error), Some(_)) => panic!("{text}: {error}"),
        (Ok(value), None) => panic!("{text} became {}", serde_json::to_string(&value).unwrap()),
        (Err(_), None) => {}
    }
}

#[test]
fn records_keep_unknown_members_in_order() {
    check::<Sample>(
        r#"{"z":[ 1.50 ],"name":"n","inputSchema":{"b":1,"a":2e0},"a":null,"side_effects":["RED","x"]}"#,
        Some(
            r#"{"name":"n","inputSchema":{"b":1,"a":2e0},"side_effects":["red","x"],"expires_at":null,"done":false,"z":[ 1.50 ],"a":null}"#,
        ),
    );
}

#[test]
fn absent_null_and_repeated_members() {
    let plain = Some(r#"{"name":"n","expires_at":null,"done":false}"#);
    check::<Sample>(r#"{"name":"n"}"#, plain);
    check::<Sample>(
        r#"{"name":"m","name":"n","inputSchema":null,"side_effects":null,"done":null}"#,
        plain,
    );
    check::<Sample>(r#"{"na\u006de":"n"}"#, plain);
    check::<Sample>("{}", None);
    check::<Sample>(r#"{"name":null}"#, None);
    check::<Sample>(r#"{"name":7}"#, None);
    check::<Sample>("[]", None);
    check::<Empty>(r#"{"x":1,"y":2,"x":3}"#, Some(r#"{"y":2,"x":3}"#));
    check::<Empty>(r#"{"maybe":[]}"#, None);
}

#[test]
fn a_required_list_can_be_null() {
    check::<Lists>(r#"{"items":null}"#, Some(r#"{"blocks":[],"items":[]}"#));
    check::<Lists>(r#"{"blocks":null,"items":[1]}"#, Some(r#"{"blocks":[],"items":[1]}"#));
    check::<Lists>(r#"{"blocks":[1]}"#, None);
    check::<Lists>(r#"{"blocks":"x","items":[]}"#, None);
    assert_eq!(Lists::new(vec![1_u64], vec![2_u64]).items, [2]);
}

#[test]
fn records_can_be_read_from_a_value() {
    let value: serde_json::Value = serde_json::from_str(r#"{"name":"n","q":{"r":[1]}}"#).unwrap();
    let sample: Sample = serde_json::from_value(value).unwrap();
    assert_eq!(sample.extra.get("q").unwrap().as_str(), r#"{"r":[1]}"#);
}

#[test]
fn required_members_make_the_constructor() {
    let sample = Sample::new("n");
    assert_eq!(sample.name, "n");
    assert_eq!(Empty::new(), Empty::default());
}

#[test]
fn tags_choose_the_record() {
    check::<Animal>(r#"{"loud":3,"type":"dog","x":1}"#, Some(r#"{"type":"dog","loud":3,"x":1}"#));
    check::<Animal>(r#"{"type":"cat","loud":"?"}"#, Some(r#"{"type":"cat","loud":"?"}"#));
    check::<Animal>(r#"{"loud":3}"#, None);
    check::<Animal>(r#"{"type":"dog"}"#, None);
    check::<Animal>(r#"{"type":3}"#, None);
    check::<Dog>(r#"{"type":"cat","loud":3}"#, None);
}

#[test]
fn words() {
    check::<Colour>(r#""RED""#, Some(r#""red""#));
    check::<Colour>(r#""blue""#, Some(r#""blue""#));
    check::<Colour>("1", None);
    check::<Side>(r#""left""#, Some(r#""left""#));
    check::<Side>(r#""up""#, None);
}

#[test]
fn malformed_members_are_preserved() {
    check::<Lenient<Dog>>(r#"{"type":"dog"}"#, Some(r#"{"type":"dog"}"#));
    let dog: Lenient<Dog> = serde_json::from_str(r#"{"type":"dog","loud":1}"#).unwrap();
    assert_eq!(dog.valid().unwrap().loud, 1);
    check::<OneOrMany<Dog>>(r#"[{"type":"dog","loud":1}]"#, Some(r#"[{"type":"dog","loud":1}]"#));
}

#[test]
fn a_single_value_is_written_without_a_list() {
    let json = |values: OneOrMany<u8>| serde_json::to_string(&values).unwrap();
    let written = [json(1u8.into()), json(vec![1u8].into()), json(vec![1u8, 2].into())];
    assert_eq!(written, ["1", "1", "[1,2]"]);
    assert_eq!(json(Vec::<u8>::new().into()), "[]");
}

#[test]
fn many_unknown_members_are_read_in_linear_time() {
    let members: Vec<_> = (0..50_000).map(|n| format!("\"m{n}\":{n}")).collect();
    let text = format!("{{{}}}", members.join(","));
    let empty: Empty = serde_json::from_str(&text).unwrap();
    assert_eq!(empty.extra.len(), 50_000);
}

#[test]
fn many_members_in_another_order_are_compared_in_linear_time() {
    let member = |n: u32| (format!("member{n:06}"), Payload::null());
    let time = |count: u32| {
        let one: Extras = (0..count).map(member).collect();
        let other: Extras = (0..count).rev().map(member).collect();
        let once = || {
            let start = tokio::time::Instant::now();
            assert!(one == other);
            start.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let (few, many) = (time(1_000), time(32_000));
    assert!(many < few * 320, "{few:?} for 1,000 members, {many:?} for 32,000");
    let one: Extras = [member(1), member(2)].into_iter().collect();
    let other: Extras = [member(3), member(1)].into_iter().collect();
    assert_ne!(one, other);
}
