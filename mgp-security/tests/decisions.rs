//! The example that times decisions decides correctly, and prints a figure for each kind.

#[expect(dead_code, reason = "the program's `main` is not run here")]
#[path = "../examples/decisions.rs"]
mod decisions;

#[tokio::test]
async fn every_kind_of_decision_is_timed() {
    let figures = decisions::figures(20).await.unwrap();
    assert!(figures.len() > 10, "{figures:?}");
    assert!(figures.iter().all(|(_, nanoseconds)| *nanoseconds > 0.0), "{figures:?}");
}
