//! Compile errors for invalid tools: the macros' own errors, and the traits' notes.
//!
//! `TRYBUILD=overwrite cargo test -p mgp-server-sdk --test ui` updates the expected texts.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
