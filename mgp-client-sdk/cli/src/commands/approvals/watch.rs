//! The command `mgp approvals watch`: asks a person about each new approval.

use std::time::{Duration, SystemTime};

use mgp_types::mgp::KernelApproval;

use super::{ApprovalList, Decision, Term, WholeApproval, already_decided, caller, effect};
use crate::args::Global;
use crate::backend::Backend;
use crate::exit::{CliResult, Failure};
use crate::output::{print, print_note};
use crate::prompt;

const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The time for which the answer `h` approves a call.
const HOUR: Duration = Duration::from_hours(1);

/// Prints each new approval once. If a person is at the terminal, asks for a decision about each of them, beginning
/// with the newest, because its call may still wait.
pub(super) async fn run(global: &Global, backend: &Backend, is_interactive: bool) -> CliResult {
    if is_interactive {
        print_note(global, "watching for questions; Ctrl-C ends");
    }
    let mut seen: Vec<String> = Vec::new();
    loop {
        let all = backend.followed(backend.approvals(None).await).await?;
        seen.retain(|id| all.iter().any(|one| one.id == *id));
        let new = all.into_iter().filter(|one| one.state == "open" && !seen.contains(&one.id));
        let mut new: Vec<KernelApproval> = new.collect();
        if is_interactive && let Some(newest) = new.pop() {
            seen.push(newest.id.clone());
            let known = seen.iter().chain(new.iter().map(|one| &one.id)).cloned().collect();
            answer(global, backend, newest, known).await?;
            // Read the approvals again, because other calls may have begun to wait meanwhile.
            continue;
        }
        seen.extend(new.iter().map(|one| one.id.clone()));
        if !new.is_empty() {
            print(global, &ApprovalList { approvals: new, is_watch: true })?;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Asks the person to decide about one approval. If the person skips the question, the approval stays pending. `known`
/// has the ids of the approvals that were already shown to the person.
async fn answer(
    global: &Global,
    backend: &Backend,
    approval: KernelApproval,
    mut known: Vec<String>,
) -> CliResult {
    let id = approval.id.clone();
    prompt::discard_typed();
    print(global, &ApprovalList { approvals: vec![approval.clone()], is_watch: true })?;
    let (terms, letters) = terms(&approval.kind);
    loop {
        let question =
            format!("{id}: approve? {terms}, [n]o (e.g. `n not on Fridays`), [d]etails, [s]kip: ");
        let typed = typed_line(global, backend, question, &mut known).await?;
        let (word, reason) = typed.split_once(char::is_whitespace).unwrap_or((&typed, ""));
        let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        let mut params = Decision { id: id.clone(), because: reason }.params();
        params.expected = Some(approval.state.clone());
        let word = word.to_ascii_lowercase();
        let has_term = word.starts_with(|first: char| letters.contains(first));
        let decided = match &*word {
            "y" | "yes" | "h" | "hour" | "a" | "always" if has_term => {
                term_of(&word).set(&mut params);
                let effect = effect(&approval, &params);
                let effect = effect.map(|effect| format!("approved {effect}"));
                backend.approve(&params).await.map(|it| it.message.or(effect).unwrap_or(it.status))
            }
            "n" | "no" => backend.deny(&params).await.map(|()| "denied".to_owned()),
            "d" | "details" => {
                let whole = backend.approvals(Some(&id)).await?.into_iter().next();
                whole.map_or(Ok(()), |whole| print(global, &WholeApproval(whole)))?;
                continue;
            }
            "" | "s" | "skip" => return Ok(()),
            _ => {
                print_note(global, &format!("answer {letters}, n, d or s"));
                continue;
            }
        };
        let outcome = match decided {
            Ok(outcome) => outcome,
            // The failure may be that another operator has decided about the approval meanwhile, so read the approval
            // again.
            Err(failure) => {
                let now = backend.approvals(Some(&id)).await.unwrap_or_default();
                let decided = now.first().filter(|now| now.state != approval.state);
                decided.map_or(failure, already_decided).to_string()
            }
        };
        print_note(global, &format!("{id}: {outcome}"));
        return Ok(());
    }
}

/// Asks a question and returns the line that the person types. While the person types, prints each new approval,
/// because its call may time out before the person has answered this question.
async fn typed_line(
    global: &Global,
    backend: &Backend,
    question: String,
    known: &mut Vec<String>,
) -> CliResult<String> {
    // Read on a separate thread, because reading from a terminal cannot be cancelled; an interrupt ends the process.
    let mut typing = tokio::task::spawn_blocking(move || prompt::line(&question));
    loop {
        let listed = async {
            tokio::time::sleep(WATCH_INTERVAL).await;
            backend.approvals(None).await
        };
        let all = tokio::select! {
            typed = &mut typing => {
                return typed.map_err(|error| Failure::failed(error.to_string()))?;
            }
            all = listed => all,
        };
        // Ignore an error here. If the kernel has ended, the next request after the person's answer reports it.
        for one in all.unwrap_or_default() {
            if one.state == "open" && !known.contains(&one.id) {
                let agent = caller(&one);
                let what = [one.server_id.as_deref(), one.tool.as_deref()];
                let what = what.into_iter().flatten().collect::<Vec<_>>().join(".");
                let note = format!("\n{}: {agent} asks for {what}; [s]kip shows it", one.id);
                print_note(global, &note);
                known.push(one.id);
            }
        }
    }
}

/// Returns the answers that approve a request of this kind, and their letters.
fn terms(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "call" => ("[y]es once, for an [h]our with any arguments, [a]lways like this", "y, h, a"),
        "registration" => ("[y]es", "y"),
        _ => ("[y]es until revoked, for an [h]our", "y, h"),
    }
}

/// Returns the calls that a word at the prompt approves: `h…` all calls for an hour, `a…` all calls like this one, any
/// other word only this call.
fn term_of(word: &str) -> Term {
    match word.as_bytes().first() {
        Some(b'h') => Term { until: Some(SystemTime::now() + HOUR), ..Term::default() },
        Some(b'a') => Term { always_like_this: true, ..Term::default() },
        _ => Term::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_offers_only_the_answers_that_its_kind_allows() {
        let offers = |kind, letter: char| terms(kind).1.contains(letter);
        assert!(offers("call", 'a') && offers("call", 'h') && offers("call", 'y'));
        assert!(offers("permissions", 'h') && !offers("permissions", 'a'));
        assert!(offers("registration", 'y') && !offers("registration", 'h'));
    }
}
