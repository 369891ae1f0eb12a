//! A file of the spool as `chlog spool status` prints it.

use changelog_core::{OrganizationId, Timestamp};
use serde::Serialize;

use super::entry::SpoolFile;
use crate::base::failure::Cause;
use crate::base::time::relative;
use crate::output::fitted::{Cell, Kind};
use crate::output::record::{Column, Record};

/// A row of `chlog spool status`.
#[derive(Serialize)]
pub(crate) struct SpoolItem {
    pub(crate) id: String,
    /// `waiting`, `unauthorized`, `unexpected_response`, `rejected` or `damaged`.
    pub(crate) state: &'static str,
    pub(crate) title: String,
    pub(crate) url: String,
    /// The organization, if it is known.
    pub(crate) organization: Option<OrganizationId>,
    /// The fingerprint of the key that it was kept with.
    pub(crate) key_fingerprint: String,
    pub(crate) kept_at: Option<Timestamp>,
    pub(crate) reason: String,
}

impl SpoolItem {
    pub(crate) fn new(file: &SpoolFile, is_rejected: bool) -> Self {
        let id = file.id();
        match &file.entry {
            Ok(entry) => Self {
                id,
                state: match entry.cause {
                    _ if is_rejected => "rejected",
                    Cause::Unauthorized => "unauthorized",
                    Cause::UnexpectedResponse => "unexpected_response",
                    _ => "waiting",
                },
                title: entry.title(),
                url: entry.url.clone(),
                organization: entry.known_organization(),
                key_fingerprint: entry.key_fingerprint.clone(),
                kept_at: Some(entry.kept_at),
                reason: entry.reason.clone(),
            },
            Err(error) => Self {
                id,
                state: if is_rejected { "damaged" } else { "waiting" },
                title: "unreadable".to_owned(),
                url: String::new(),
                organization: None,
                key_fingerprint: String::new(),
                kept_at: None,
                reason: format!("{}: {error}", file.path.display()),
            },
        }
    }

    /// Returns the organization, or the key's fingerprint while the
    /// organization is not known.
    pub(crate) fn owner(&self) -> String {
        match &self.organization {
            Some(organization) => organization.to_string(),
            None if self.key_fingerprint.is_empty() => String::new(),
            None => format!("unknown (key {})", self.key_fingerprint),
        }
    }
}

impl Record for SpoolItem {
    const PLURAL: &'static str = "waiting changes";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "state",
        "title",
        "url",
        "organization",
        "key_fingerprint",
        "kept_at",
        "reason",
    ];

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("kept", Kind::Fixed, |item: &Self, context| {
                Cell::of(item.kept_at.map(|at| relative(at, context.now)))
            }),
            Column::new("state", Kind::Fixed, |item: &Self, _| Cell::new(item.state)),
            Column::new("title", Kind::Text, |item: &Self, _| Cell::new(&item.title)),
            Column::new("reason", Kind::Text, |item: &Self, _| {
                Cell::new(&item.reason)
            }),
            Column::new("url", Kind::Side, |item: &Self, _| Cell::new(&item.url)),
            Column::new("organization", Kind::Side, |item: &Self, _| {
                Cell::new(item.owner())
            }),
            Column::new("id", Kind::Id, |item: &Self, _| Cell::new(&item.id)),
        ]
    }
}
