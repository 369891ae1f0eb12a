//! A change or an update that was kept in the spool, as commands print it.

use changelog_core::{RiskLevel, Status};
use serde::Serialize;

use super::entry::SpoolEntry;
use crate::base::failure::{Failure, Outcome};
use crate::base::text::one_line;
use crate::output::Output;
use crate::output::record::Record;

/// A queued change or update. Commands accept its id in place of that of the change.
#[derive(Debug, Serialize)]
pub(crate) struct Queued {
    pub(crate) id: String,
    /// None for an update.
    title: Option<String>,
    risk_level: Option<RiskLevel>,
    status: Option<Status>,
    #[serde(rename = "queued")]
    is_in_spool: bool,
    /// The failure, if the user has to do something before it can be sent.
    #[serde(skip)]
    pub(crate) failure: Option<Failure>,
}

impl Queued {
    /// Describes an entry; `entry_id` is the id of its file.
    pub(in crate::recording) fn new(entry: &SpoolEntry, entry_id: String) -> Self {
        let draft = entry.draft.as_ref().map(|draft| &draft.change);
        let patch = entry.update.as_ref().map(|update| &update.patch);
        let status = patch.and_then(|patch| patch.status.clone());
        let is_new = entry.draft.is_some();
        Self {
            id: match entry.id {
                Some(id) if !is_new => id.to_string(),
                _ => entry_id,
            },
            title: draft
                .map(|draft| draft.title.clone())
                .or_else(|| patch?.title.clone()),
            risk_level: draft
                .and_then(|draft| draft.risk_level.clone())
                .or_else(|| patch?.risk_level.clone()),
            status: status.or_else(|| draft?.status.clone()),
            is_in_spool: true,
            failure: None,
        }
    }

    /// Prints the id on standard output, and fails if the user has to do something.
    pub(crate) fn print(self, output: &mut Output) -> Outcome {
        output.record(&self, |queued| {
            let title = queued.title.as_deref().map(one_line).unwrap_or_default();
            format!("{}  queued  {title}", queued.id)
                .trim_end()
                .to_owned()
        })?;
        self.failure.map_or(Ok(()), Err)
    }
}

impl Record for Queued {
    const PLURAL: &'static str = "queued changes";
    const COLUMNS: &'static [&'static str] = &["id", "title", "risk_level", "status", "queued"];
}
