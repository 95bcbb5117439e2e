//! What the compiler says about tools that are none: the macros' own errors, and the traits' notes.
//!
//! `TRYBUILD=overwrite cargo test -p mgp-server-sdk --test ui` writes the expected texts anew.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
