//! Tests of the compile errors for invalid tools: of the macros' own errors, and of the notes of the traits.
//!
//! `TRYBUILD=overwrite cargo test -p mgp-server-sdk --test ui` updates the expected texts.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
