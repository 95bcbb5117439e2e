//! Tests of the word table: texts are split into the same pieces as in training, vectors are valid, hostile text is
//! safe.

use proptest::prelude::*;

use super::file::Place;
use super::*;

/// Expected pieces, written by the step `table` of `training/train.py`. Each line has a tokenizer, a text, and the
/// pieces of the text. The tokenizer `bert` is the reference; the table was trained with the tokenizer `own`.
const GOLDEN: &str = include_str!("pieces.tsv");

fn pieces(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let _ = wordpiece::pieces(&FILE, text, &mut |row| {
        let (place, piece) = FILE.piece(row).unwrap();
        out.push(format!("{}{piece}", if place == Place::Next { "##" } else { "" }));
        ControlFlow::Continue(())
    });
    out
}

fn embed(text: &str) -> Vec<f32> {
    StaticTable::new().embed(text).unwrap()
}

fn cosine(a: &str, b: &str) -> f32 {
    embed(a).iter().zip(embed(b)).map(|(a, b)| a * b).sum()
}

#[track_caller]
fn nearest(query: &str, right: &str, others: &[&str]) {
    let best = cosine(query, right);
    for other in others {
        let cosine = cosine(query, other);
        assert!(best > cosine + 0.1, "{query}: {right} {best}, {other} {cosine}");
    }
}

#[test]
fn the_table_is_the_one_of_the_model_card() {
    let sum = blake3::hash(RAW).to_hex();
    let card = include_str!("../../../training/MODEL_CARD.md");
    assert!(card.contains(sum.as_str()), "the model card does not name the sum {sum}");
    assert!(card.contains(StaticTable::new().model()));
    assert!(RAW.len() < 4_300_000, "{} bytes", RAW.len());
}

#[test]
fn a_truncated_or_inconsistent_file_is_refused() {
    assert!(File::of(RAW).is_some());
    assert!(File::of(&RAW[..RAW.len() - 1]).is_none());
    for cut in [0, 7, 63, 64, 100, 4000, 200_000] {
        assert!(File::of(&RAW[..cut]).is_none(), "{cut}");
    }
    for at in 0..32 {
        let mut raw = RAW.to_vec();
        raw[at] ^= 0x10;
        let raw: &'static [u8] = raw.leak();
        // A damaged file may still be accepted, e.g. if fewer slots only hide pieces. In this case, splitting a text
        // must not panic.
        if let Some(file) = File::of(raw) {
            let _ =
                wordpiece::pieces(&file, "a plain sentence", &mut |_| ControlFlow::Continue(()));
        }
    }
}

#[test]
fn texts_are_split_as_in_training() {
    let mut count = 0;
    for line in GOLDEN.lines() {
        let [tokenizer, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}");
        };
        assert_eq!(pieces(text).join(" "), expected, "{tokenizer}: {text}");
        count += 1;
    }
    assert!(count >= 40, "{count} texts");
}

#[test]
fn identifiers_are_split_and_known_words_stay_whole() {
    assert_eq!(pieces("readFile"), ["read", "file"]);
    assert_eq!(pieces("read_file"), ["read", "file"]);
    assert_eq!(pieces("read-file.now"), ["read", "file", "now"]);
    assert_eq!(pieces("HTTPServer2Client"), pieces("http server2 client"));
    assert_eq!(pieces("JavaScript"), ["javascript"]);
    assert_eq!(pieces("GitHub"), ["github"]);
    assert_eq!(embed("listUserAccounts"), embed("list user accounts"));
}

#[test]
fn case_accents_and_signs_change_nothing() {
    assert_eq!(embed("Café, déjà vu!"), embed("cafe deja vu"));
    assert_eq!(embed("cafe\u{301} now"), embed("café now"));
    assert_eq!(embed("…café"), embed("cafe"));
    assert_eq!(pieces("水火"), ["水", "火"]);
}

#[test]
fn every_piece_finds_itself() {
    for row in 0.. {
        let Some((place, piece)) = FILE.piece(row) else {
            assert!(row > 25_000, "{row} rows");
            break;
        };
        let start = if place == Place::Next { file::Hash::NEXT } else { file::Hash::FIRST };
        let hash = piece.bytes().fold(start, super::file::Hash::with);
        assert_eq!(FILE.find(hash, place, piece.as_bytes()), Some(row), "{piece}");
    }
}

#[test]
fn vectors_have_length_one_or_zero() {
    for text in ["read a file", "x", "天", "GetObject", "1 2 3"] {
        let vector = embed(text);
        assert_eq!(vector.len(), StaticTable::new().dimensions());
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "{text}: {length}");
    }
    for text in ["", "  \n", "?!…", "\u{0}\u{7}", "שלום"] {
        assert!(embed(text).iter().all(|x| *x == 0.0), "{text:?}");
    }
}

#[test]
fn texts_of_one_meaning_are_near() {
    let others = [
        "merge_pull_request. Merges a pull request on GitHub",
        "send_email. Sends a message to a mailbox",
        "get_stock_price. Current price of a share",
        "resize_image. Changes width and height of a picture",
    ];
    nearest("will it rain tomorrow?", "get_forecast. Weather of the next days", &others);
    nearest("how much is 20 euros in dollars", "convert_currency. Exchange rates", &others[..2]);
    nearest("write a mail to my boss", others[1], &[others[0], others[2], others[3]]);
    nearest("make this photo smaller", others[3], &others[..3]);
    assert!(cosine("delete a folder", "remove directory") > 0.5);
}

#[test]
fn hostile_texts_are_cheap_and_harmless() {
    let long = "a".repeat(64 * 1024);
    assert!(embed(&long).iter().all(|x| *x == 0.0));
    let words = "file ".repeat(20_000);
    assert_eq!(embed(&words), embed(&"file ".repeat(MAX_PIECES)));
    for text in [
        "\u{301}\u{301}",
        "\u{FFFD}\u{202E}abc",
        "🦀🦀",
        "a\u{0}b",
        "İstanbul ǅ ﬁ",
        "한국어",
        "aB\u{301}C",
    ] {
        assert!(embed(text).iter().all(|x| x.is_finite()));
    }
    let humps = "aB".repeat(32 * 1024);
    assert!(embed(&humps).iter().all(|x| x.is_finite()));
    let wide = "é".repeat(40_000);
    assert!(embed(&wide).iter().all(|x| x.is_finite()));
}

proptest! {
    #[test]
    fn every_text_has_a_valid_vector(text in ".{0,300}") {
        let vector = embed(&text);
        let length: f32 = vector.iter().map(|x| x * x).sum();
        prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-4);
    }

    #[test]
    fn order_and_separators_do_not_matter(words in proptest::collection::vec("[a-z]{1,12}", 1..20)) {
        let mut turned = words.clone();
        turned.reverse();
        let (a, b) = (embed(&words.join(" ")), embed(&turned.join("_-")));
        prop_assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}
