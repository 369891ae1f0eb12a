//! The tools that read.

use std::collections::HashMap;

use changelog_core::limits::MAX_SUSPECTS;
use changelog_core::{Change, Coverage, Service};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::arguments::{self, GetChange, ListServices, SearchChanges, WhatChanged};
use super::tools::Tools;
use super::whole::whole;
use crate::around::investigate;
use crate::blocking_pool;
use crate::store::StoreError;
use crate::web::ApiError;

/// The changes that are read for one answer; more do not fit into it.
const CHANGES_PER_ANSWER: usize = 12;
/// The services that are read for one answer.
const SERVICES_PER_ANSWER: usize = 40;
/// The gaps and silent sources that an answer names.
const MAX_GAPS: usize = 3;
/// The reasons of a suspect that an answer has, those with the most points first.
const MAX_REASONS: usize = 4;
/// The limit on a reason or the description of a service, in characters.
const MAX_TEXT_CHARS: usize = 80;

/// Ranks the changes before a moment, as `GET /api/changes/around` does.
pub(super) async fn what_changed(
    tools: &Tools,
    arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let arguments: WhatChanged = arguments::read(tools, arguments)?;
    let mut filter = arguments.filter(tools).await?;
    let offset = arguments.offset;
    let end = offset.saturating_add(CHANGES_PER_ANSWER + 1) as u64;
    filter.limit = end.min(MAX_SUSPECTS);
    let found = investigate(&tools.app, tools.caller.tenant, &filter).await?;
    let around = found.answer;
    let documents: HashMap<_, _> = found.documents.into_iter().collect();
    let head = json!({
        "at": around.at,
        "since": around.since,
        "considered": around.considered,
        "complete": around.complete,
        "coverage": coverage(&around.coverage),
    });
    let first = format!(
        "{}{} changes between {} and {}; {}",
        if around.complete { "" } else { "the last " },
        around.considered,
        around.since,
        around.at,
        what_is_known(&around.coverage),
    );
    let mut answer = Answer::new("suspects", head, &first);
    let mut shown = offset;
    for ranked in found.ranked.iter().skip(offset).take(CHANGES_PER_ANSWER) {
        // A change may have been deleted since it was ranked.
        if let Some(document) = documents.get(&ranked.id) {
            let change = document.parse()?;
            let reasons = ranked.reasons.iter().take(MAX_REASONS);
            let reasons: Vec<String> = reasons
                .map(|one| {
                    let text = answer::quote_names(&one.text, &change);
                    let text = answer::excerpt(&text, MAX_TEXT_CHARS);
                    format!("{text} ({:+})", one.points)
                })
                .collect();
            let mut item = answer::item(&change);
            item["score"] = ranked.score.into();
            item["reasons"] = json!(reasons);
            let line = format!(
                "#{} score {}: {}; {}",
                shown + 1,
                ranked.score,
                answer::line(&change),
                reasons.join("; ")
            );
            if !answer.push(item, &line) {
                break;
            }
        }
        shown += 1;
    }
    let is_last = shown >= found.ranked.len();
    let cursor = (!is_last).then(|| format!("{}.{shown}", around.at.millis()));
    Ok(answer.finish(cursor))
}

/// Says what the absence of changes means.
fn what_is_known(coverage: &Coverage) -> String {
    let (sources, gaps) = (coverage.sources.len(), coverage.gaps.len());
    let unknown = learning(coverage);
    if sources == 0 {
        return "no source reports changes: there may be others".to_owned();
    }
    let gaps = match gaps {
        0 => "no gap in what was reported".to_owned(),
        1 => "a gap in what was reported: see coverage".to_owned(),
        _ => format!("{gaps} gaps in what was reported: see coverage"),
    };
    match unknown {
        0 => gaps,
        _ => format!("{gaps}, as far as is known: {unknown} of {sources} sources are new"),
    }
}

/// Returns of how many sources it is not known how often they report.
fn learning(coverage: &Coverage) -> usize {
    let sources = coverage.sources.iter();
    sources.filter(|one| one.expected_by.is_none()).count()
}

/// Returns what an answer says about the completeness of the log.
fn coverage(coverage: &Coverage) -> Value {
    let gaps = coverage.gaps.iter().take(MAX_GAPS);
    let gaps: Vec<Value> = gaps
        .map(|gap| json!({ "source": gap.name, "since": gap.since, "until": gap.until }))
        .collect();
    json!({
        "sources": coverage.sources.len(),
        "new_sources": learning(coverage),
        "gaps": gaps,
        "more_gaps": coverage.gaps.len().saturating_sub(MAX_GAPS),
    })
}

/// Returns a change, as `GET /api/changes/ID` does.
pub(super) async fn get_change(
    tools: &Tools,
    arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let arguments: GetChange = arguments::read(tools, arguments)?;
    let id = arguments.id.ok_or(StoreError::NotFound)?;
    let change = tools.app.store.change(tools.caller.tenant, id).await?;
    let url = format!("{}/changes/{id}", tools.app.url());
    Ok(whole(&change.parse()?, &url, arguments.from))
}

/// Lists changes, as `GET /api/changes` does.
pub(super) async fn search_changes(
    tools: &Tools,
    arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let arguments: SearchChanges = arguments::read(tools, arguments)?;
    let limit = CHANGES_PER_ANSWER as u64;
    let filter = arguments.filter(tools, limit).await?;
    let found = tools
        .app
        .store
        .changes(tools.caller.tenant, &filter)
        .await?;
    let json = found.json;
    let changes: Vec<Change> = blocking_pool::run_sized(json.0.len(), move || json.parse()).await?;
    let count = found.count;
    let first = format!("{count} changes match, newest first");
    let mut answer = Answer::new("changes", json!({ "count": count }), &first);
    let mut last = None;
    for change in &changes {
        if !answer.push(answer::item(change), &answer::line(change)) {
            break;
        }
        last = Some(change.cursor());
    }
    let all_shown = last == changes.last().map(Change::cursor);
    let is_last = all_shown && changes.len() < CHANGES_PER_ANSWER;
    let cursor = last.filter(|_| !is_last).map(|cursor| cursor.to_string());
    Ok(answer.finish(cursor))
}

/// Lists services, as `GET /api/services` does.
pub(super) async fn list_services(
    tools: &Tools,
    arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let ListServices { after } = arguments::read(tools, arguments)?;
    let limit = SERVICES_PER_ANSWER as u64;
    let services: Vec<Service> = tools
        .app
        .store
        .items_after(tools.caller.tenant, &after, limit)
        .await?;
    let mut answer = Answer::new("services", json!({}), "services by name");
    let mut last = None;
    for service in &services {
        let mut item = json!({ "id": service.id, "name": service.name });
        if let Some(about) = &service.description {
            item["untrusted"] = json!({ "description": answer::excerpt(about, MAX_TEXT_CHARS) });
        }
        if !answer.push(item, &answer::quoted(&service.name)) {
            break;
        }
        last = Some(&service.name);
    }
    let is_last = last == services.last().map(|service| &service.name)
        && services.len() < SERVICES_PER_ANSWER;
    let cursor = last.filter(|_| !is_last).cloned();
    Ok(answer.finish(cursor))
}
