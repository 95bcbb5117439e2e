//! Tests of the hits and scores of the keyword index.

use proptest::prelude::*;

use super::*;
use crate::catalog::{Bitmap, Slot};
use crate::text::{Analyzer, Indexer, TextLimits, ToolText};

fn document(name: &str, description: &str) -> MakeDocument {
    let mut tool = mgp_types::mcp::Tool::new(name.to_owned(), mgp_types::RawObject::empty());
    tool.description = Some(description.to_owned());
    let bounds = TextLimits { description: 1000, parameter: 100, parameters: 10 };
    Box::new(move |indexer| ToolText::of(&tool, "s", bounds).document(indexer))
}

fn reader(names: &[&str]) -> (KeywordWriter, KeywordReader) {
    let mut keywords = KeywordWriter::new();
    let new = (0..).zip(names).map(|(slot, name)| (slot, document(name, ""))).collect();
    let reader = apply(&mut keywords, &[], new);
    (keywords, reader)
}

fn apply(
    keywords: &mut KeywordWriter,
    gone: &[Slot],
    new: Vec<(Slot, MakeDocument)>,
) -> KeywordReader {
    let gone = gone.iter().map(|slot| Step::Remove(*slot));
    let new = new.into_iter().map(|(slot, make)| Step::Add(slot, make));
    keywords.write(gone.chain(new).collect()).unwrap();
    keywords.commit().unwrap()
}

fn slots(found: &[(Slot, f32)]) -> Vec<Slot> {
    found.iter().map(|(slot, _)| *slot).collect()
}

#[test]
fn names_with_typing_errors_are_found() {
    let names = ["read_file", "write_file", "list_directory", "send_email", "file_reader", "id"];
    let (_writer, reader) = reader(&names);
    let check = |query: &str, expected: &str| {
        let found = reader.find_similar(&Analyzer::new().query(query), 3, None).unwrap();
        let first = found.first().map(|(slot, _)| names[*slot as usize]);
        assert_eq!(first, Some(expected), "{query}: {found:?}");
        assert!(found.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
    };
    check("read_file", "read_file");
    check("raed_file", "read_file");
    check("readfile", "read_file");
    check("read_fil", "read_file");
    check("write file", "write_file");
    check("list_driectory", "list_directory");
    check("listdirectry", "list_directory");
    check("sned emial", "send_email");
    let none = reader.find_similar(&Analyzer::new().query("zebra"), 3, None).unwrap();
    assert!(none.is_empty());
    let within: Bitmap = [4].into_iter().collect();
    let found = reader.find_similar(&Analyzer::new().query("raed file"), 3, Some(&within)).unwrap();
    assert_eq!(slots(&found), [4]);
}

#[test]
fn a_word_of_a_hidden_tool_is_unknown() {
    let (_writer, reader) = reader(&["read_file", "raed_mail"]);
    let [visible, hidden]: [Bitmap; 2] = [0, 1].map(|slot| [slot].into_iter().collect());
    let query = Analyzer::new().query("raed");
    let found = |within: &Bitmap| slots(&reader.find_similar(&query, 3, Some(within)).unwrap());
    assert_eq!((found(&visible), found(&hidden)), (vec![0], vec![1]));
    assert!(reader.has_word("mail", None) && reader.has_word("mail", Some(&hidden)));
    assert!(!reader.has_word("mail", Some(&visible)));
}

#[test]
fn a_misspelled_word_is_corrected_by_names() {
    let names = ["read_file", "write_file", "list_directory", "read_field"];
    let (_writer, reader) = reader(&names);
    let check = |word: &str, within: Option<&Bitmap>, expected: Option<&str>| {
        let is_english = |word: &str| word != "directori";
        let found = reader.correction(word, within, &is_english).unwrap();
        assert_eq!(found.as_deref(), expected, "{word}");
    };
    check("fiel", None, Some("file"));
    check("wriet", None, Some("write"));
    check("driectory", None, Some("directory"));
    check("bead", None, None);
    check("filo", None, None);
    check("zebra", None, None);
    let within: Bitmap = [1].into_iter().collect();
    check("fiel", Some(&within), Some("file"));
    check("raed", Some(&within), None);
}

#[test]
fn rare_words_weigh_more() {
    let (_writer, reader) = reader(&["read_file", "write_file", "copy_file"]);
    let stem = |word: &str| Analyzer::new().stem(word);
    assert!(reader.idf(&stem("read")) > reader.idf(&stem("file")));
    assert!(reader.idf("nothing") > reader.idf(&stem("read")));
}

#[test]
fn a_rolled_back_change_is_never_committed() {
    let (mut writer, _) = reader(&["read_file"]);
    let ask = |reader: &KeywordReader, text: &str| {
        slots(&reader.look_up(&Analyzer::new().query(text)).unwrap().top(9, None).unwrap())
    };
    writer.write(vec![Step::Remove(0), Step::Add(1, document("write_file", ""))]).unwrap();
    writer.roll_back();
    let next = apply(&mut writer, &[], vec![(2, document("paint_file", ""))]);
    assert_eq!(ask(&next, "file"), [0, 2]);
    // If a change has several steps for a tool, only the last step must count.
    let steps = [(3, "one_cat"), (3, "two_dogs")];
    let steps = steps.map(|(slot, name)| [Step::Remove(slot), Step::Add(slot, document(name, ""))]);
    writer.write(steps.into_iter().flatten().collect()).unwrap();
    let next = writer.commit().unwrap();
    assert_eq!((ask(&next, "cat"), ask(&next, "dog")), (vec![], vec![3]));
}

#[test]
fn a_change_replaces_a_tool_and_reuses_its_slot() {
    let (mut writer, reader) = reader(&["read_file", "write_file"]);
    let ask = |reader: &KeywordReader, text: &str| {
        slots(&reader.look_up(&Analyzer::new().query(text)).unwrap().top(9, None).unwrap())
    };
    assert_eq!(ask(&reader, "file"), [0, 1]);
    let next = apply(&mut writer, &[0], vec![(0, document("paint_wall", ""))]);
    assert_eq!((ask(&next, "file"), ask(&next, "paint")), (vec![1], vec![0]));
    // A reader that was created before the change must still see the old documents.
    assert_eq!((ask(&reader, "file"), ask(&reader, "paint")), (vec![0, 1], vec![]));
    let next = apply(&mut writer, &[0, 1], Vec::new());
    assert_eq!(ask(&next, "file paint"), Vec::<Slot>::new());
}

fn found(reader: &KeywordReader, text: &str) -> Vec<(Slot, f32)> {
    reader.look_up(&Analyzer::new().query(text)).unwrap().top(1000, None).unwrap()
}

/// Returns a word that only the tool in this slot has.
fn own(slot: Slot) -> String {
    let digits = slot.to_string();
    let letters: String = digits.bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
    format!("own{letters}q")
}

/// Creates documents that share some words and have a unique word each.
fn many(slots: std::ops::Range<Slot>) -> Vec<(Slot, MakeDocument)> {
    let text = |slot| format!("shared{} words of all, {}", slot % 7, own(slot));
    slots.map(|slot| (slot, document("tool", &text(slot)))).collect()
}

#[test]
fn threads_build_the_same_as_the_caller() {
    let (mut tools, mut address) = (KeywordWriter::new(), KeywordWriter::new());
    let mut one = apply(&mut tools, &[], many(0..100));
    for start in [100, 200, 300, 400, 500, 600] {
        one = apply(&mut tools, &[], many(start..start + 100));
    }
    // Only the last step for a tool must count, even if other threads processed the earlier steps.
    for batch in [many(0..300), many(300..600), many(600..700), many(40..50)] {
        let steps = batch.into_iter().flat_map(|(slot, make)| {
            let gone = (40..50).contains(&slot).then_some(Step::Remove(slot));
            gone.into_iter().chain([Step::Add(slot, make)])
        });
        address.write(steps.collect()).unwrap();
    }
    let other = address.commit().unwrap();
    assert_eq!(found(&other, &own(45)).len(), 1);
    assert_eq!(found(&other, "words").len(), 700);
    // Compare the scores with those of an index without deleted documents, because deleted documents affect scores
    // until a merge removes them.
    let mut other = KeywordWriter::new();
    for batch in [many(0..400), many(400..700)] {
        let steps = batch.into_iter().map(|(slot, make)| Step::Add(slot, make));
        other.write(steps.collect()).unwrap();
    }
    let other = other.commit().unwrap();
    for query in ["shared3 words", &format!("{} {}", own(45), own(699)), "all"] {
        assert_eq!(found(&one, query), found(&other, query), "{query}");
    }
}

#[test]
fn a_large_change_is_rolled_back() {
    let (mut writer, _) = reader(&["read_file"]);
    let steps = many(0..600).into_iter().map(|(slot, make)| Step::Add(slot, make));
    writer.write(steps.collect()).unwrap();
    writer.roll_back();
    let next = apply(&mut writer, &[], many(7..8));
    assert_eq!((found(&next, "words").len(), found(&next, "file").len()), (1, 1));
}

#[test]
fn changes_during_a_merge_count() {
    let mut writer = KeywordWriter::new();
    let mut before = apply(&mut writer, &[], many(0..300));
    assert!(writer.merge().is_none());
    for start in [300, 600, 900] {
        before = apply(&mut writer, &[], many(start..start + 100));
    }
    let merge = writer.merge().unwrap();
    let merged = std::thread::spawn(move || merge.run().unwrap()).join().unwrap();
    let mut after = writer.refresh(merged);
    assert!(after.segments() < before.segments() && after.segments() <= 2);
    assert_eq!(found(&before, "shared3 words"), found(&after, "shared3 words"));

    // Add documents until a merge is necessary. During the merge, remove some documents, and add one of them again.
    for start in [1200, 1300, 1400, 1500] {
        after = apply(&mut writer, &[], many(start..start + 20));
    }
    let merge = writer.merge().unwrap();
    let gone: Vec<Slot> = (0..200).chain(1300..1320).collect();
    apply(&mut writer, &gone, vec![(1305, document("again", "again"))]);
    let after_merge = writer.refresh(merge.run().unwrap());
    let live_count = found(&after, "words").len() - gone.len();
    assert_eq!(found(&after_merge, "words").len(), live_count);
    assert_eq!(slots(&found(&after_merge, "again")), [1305]);
    assert!(found(&after_merge, &format!("{} {}", own(7), own(1307))).is_empty());
    // A reader of the old state must still have all documents.
    assert_eq!(found(&after, &own(7)).len(), 1);
}

#[test]
fn a_segment_without_documents_is_dropped() {
    let mut writer = KeywordWriter::new();
    apply(&mut writer, &[], many(0..300));
    let merge = Merge { format: segment::Format::new(), segments: Vec::new() };
    assert!(merge.run().unwrap().body.is_none());
    let all: Vec<Slot> = (0..300).collect();
    let none = apply(&mut writer, &all, Vec::new());
    assert_eq!((none.segments(), none.documents(), found(&none, "words").len()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The best tools are correct for any number of segments and any sequence of changes.
    #[test]
    fn the_top_tools_have_the_best_scores(
        steps in prop::collection::vec(prop::collection::vec((0u32..60, "[a-e]{1,2}( [a-e]{1,2}){0,6}"), 1..20), 1..8),
        query in "[a-e]{1,2}( [a-e]{1,2}){0,3}",
        k in 1usize..20,
        hidden in prop::collection::btree_set(0u32..60, 0..40),
    ) {
        let mut writer = KeywordWriter::new();
        let mut now = std::collections::BTreeMap::new();
        let mut reader = None;
        for step in steps {
            let step: std::collections::BTreeMap<_, _> = step.into_iter().collect();
            let gone: Vec<Slot> = step.keys().copied().filter(|slot| now.contains_key(slot)).collect();
            // Each step replaces an existing tool, or removes it if its slot is a multiple of five.
            let (new, _): (Vec<_>, Vec<_>) = step.iter().partition(|(slot, _)| !gone.contains(slot) || *slot % 5 > 0);
            now.retain(|slot, _| !gone.contains(slot));
            now.extend(new.iter().map(|(slot, text)| (**slot, (*text).clone())));
            let new = new.into_iter().map(|(slot, text)| (*slot, document("x", text))).collect();
            reader = Some(apply(&mut writer, &gone, new));
        }
        let reader = reader.unwrap();
        let words = Analyzer::new().query(&query);
        let within: Bitmap = (0..60).filter(|slot| !hidden.contains(slot)).collect();
        let all: Vec<Slot> = (0..60).collect();
        let asked = reader.look_up(&words).unwrap();
        let mut scores = vec![0.0; all.len()];
        for one in asked.score_each(&all).unwrap().chunks(all.len()) {
            scores.iter_mut().zip(one).for_each(|(sum, score)| *sum += score);
        }
        for (slot, score) in all.iter().zip(&scores) {
            let occurs = now.get(slot).is_some_and(|text| {
                let mut indexed = String::new();
                Indexer::new().index(&format!("x {text} s"), &mut indexed);
                words.terms.iter().any(|term| indexed.split(' ').any(|word| word == term.text))
            });
            prop_assert_eq!(occurs, *score > 0.0, "{} {:?}", slot, now.get(slot));
        }
        for within in [None, Some(&within)] {
            let mut best: Vec<(Slot, f32)> = all
                .iter()
                .zip(&scores)
                .filter(|(slot, score)| **score > 0.0 && within.is_none_or(|within| within.contains(**slot)))
                .map(|(slot, score)| (*slot, *score))
                .collect();
            best.sort_by(|a, b| b.1.total_cmp(&a.1));
            let top = asked.top(k, within).unwrap();
            prop_assert_eq!(top.len(), best.len().min(k));
            for ((_, score), (_, expected)) in top.iter().zip(&best) {
                prop_assert!((score - expected).abs() < 1e-4);
            }
        }
    }
}
