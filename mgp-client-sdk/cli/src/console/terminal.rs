//! The items of the inbox that an operator answers in a terminal: questions of servers, and transactions that could not
//! be undone.

use maud::{Markup, html};
use mgp_types::mgp::KernelCallback;
use mgp_types::proposal::TransactionRecord;

use super::layout::{command, in_order, mark, plain};
use super::operator::Viewer;
use super::times;

/// Returns a question of a server, with the command that answers it.
pub(super) fn question(viewer: &Viewer, one: &KernelCallback) -> Markup {
    let texts = viewer.texts;
    let options = one.options.join(" | ");
    html! {
        article.card aria-label=(plain(&format!("{} {}", texts.server_question, one.server_id))) {
            h2 { (texts.server_question) " " (plain(&one.server_id)) }
            pre tabindex="0" { (in_order(&one.message)) }
            dl {
                dt { (texts.agent) } dd { (plain(one.agent_id.as_deref().unwrap_or(&one.subject))) }
                @if !options.is_empty() { dt { (texts.possible_answers) } dd { (plain(&options)) } }
                dt { (texts.until) } dd { (times::moment(one.expires_at.as_str())) }
            }
            p { (texts.in_terminal) " " (command(&format!("mgp callbacks answer {} …", one.id))) }
        }
    }
}

/// Returns a transaction that could not be undone, with the command that shows what is left to do.
pub(super) fn transaction(viewer: &Viewer, one: &TransactionRecord) -> Markup {
    let texts = viewer.texts;
    html! {
        article.card aria-label=(plain(&format!("{} {}", texts.stuck_transaction, one.transaction_id))) {
            h2 { (texts.stuck_transaction) " " (plain(&one.transaction_id)) " " (mark(one.status.as_str())) }
            dl {
                dt { (texts.agent) } dd { (plain(&one.agent)) }
                dt { (texts.since) } dd { (times::moment(one.began_at.as_str())) }
            }
            @if let Some(description) = &one.description { pre tabindex="0" { (in_order(description)) } }
            p { (texts.in_terminal) " " (command(&format!("mgp transactions show {}", one.transaction_id))) }
        }
    }
}
