//! An update before it is sent: complete and checked, with the names of services and
//! hosts instead of their ids, and with edits of lists instead of their results.

use changelog_client::Client;
use changelog_core::limits::MAX_LONG_TEXT_CHARS;
use changelog_core::{
    Change, ChangeId, ChangePatch, Host, Input, Link, Service, Status, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::draft::{checked_input, rejects_only_time, warn_clock_ahead};
use crate::base::failure::{Outcome, note};
use crate::base::time;
use crate::input::flags::name_flags;
use crate::input::names::{self, Missing, non_empty};

/// An update of a change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Update {
    #[serde(deserialize_with = "checked_input")]
    pub(crate) patch: ChangePatch,
    /// The names or ids of the services; they replace those of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) services: Option<Vec<String>>,
    /// The name or id of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// Whether to create a service or host that does not exist.
    #[serde(default)]
    pub(crate) create_missing: bool,
    /// The edits of the tags; in addition to those in `patch`, which replace all.
    #[serde(default)]
    pub(crate) tags: ListEdit<String>,
    /// The edits of the links.
    #[serde(default)]
    pub(crate) links: ListEdit<Link>,
    /// Text to append to the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// A passage of the description to replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) passage: Option<Passage>,
    /// When the user made the update, if it is sent later: a status was then reached at
    /// this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) made_at: Option<Timestamp>,
    /// Whether the times in `patch` are those that the user gave. Others are of the clock of
    /// this machine, and are replaced by the server's if it rejects them.
    #[serde(default)]
    pub(crate) has_given_times: bool,
}

/// A passage of a description, and what replaces it. If a user has edited it, the new
/// passage is appended, so that nothing that was written meanwhile is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Passage {
    pub(crate) old: String,
    pub(crate) new: String,
}

impl Passage {
    fn replace(&self, description: Option<&str>) -> String {
        let text = description.unwrap_or_default().trim_end();
        let text = if text.contains(&self.old) {
            text.replacen(&self.old, &self.new, 1)
        } else if has_paragraphs(text, &self.new) {
            // It was replaced, and the answer was lost.
            text.to_owned()
        } else if text.is_empty() {
            self.new.clone()
        } else {
            format!("{text}\n\n{}", self.new)
        };
        text.chars().take(MAX_LONG_TEXT_CHARS).collect()
    }
}

/// Returns whether a text contains these paragraphs, unmodified.
fn has_paragraphs(text: &str, paragraphs: &str) -> bool {
    format!("\n\n{text}\n\n").contains(&format!("\n\n{paragraphs}\n\n"))
}

/// What is added to a list and removed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListEdit<T> {
    pub(crate) added: Vec<T>,
    /// The names of what is removed.
    pub(crate) removed: Vec<String>,
}

impl<T> Default for ListEdit<T> {
    fn default() -> Self {
        Self {
            added: Vec::new(),
            removed: Vec::new(),
        }
    }
}

impl<T: Clone> ListEdit<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Returns the items without those whose name is removed, and with the added ones.
    /// An added item replaces the one with the same name.
    fn apply(&self, items: &[T], name_of: fn(&T) -> &String) -> Vec<T> {
        let is = |item: &T, name: &str| name_of(item).trim() == name.trim();
        let mut items = items.to_vec();
        items.retain(|item| !self.removed.iter().any(|name| is(item, name)));
        for new in &self.added {
            match items.iter_mut().find(|item| is(item, name_of(new))) {
                Some(item) => item.clone_from(new),
                None => items.push(new.clone()),
            }
        }
        items
    }
}

impl From<ChangePatch> for Update {
    fn from(patch: ChangePatch) -> Self {
        Self {
            patch,
            ..Self::default()
        }
    }
}

impl Update {
    /// Returns whether the update changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.patch == ChangePatch::default()
            && names::all_non_empty(self.services.as_deref()).is_empty()
            && non_empty(self.host.as_deref()).is_none()
            && self.tags.is_empty()
            && self.links.is_empty()
            && self.note.is_none()
            && self.passage.is_none()
    }

    /// Checks the update without the change: added values as well.
    pub(crate) fn checked(self) -> Outcome<Self> {
        let checked = |patch: ChangePatch| {
            let tags = patch.tags.clone().unwrap_or_default();
            let links = patch.links.clone().unwrap_or_default();
            let patch = patch.checked(time::now());
            patch.map_err(|invalid| name_flags(invalid, &tags, &links))
        };
        let patch = checked(self.patch)?;
        checked(ChangePatch {
            tags: Some(self.tags.added.clone()),
            links: Some(self.links.added.clone()),
            description: self.note.clone().map(Some),
            ..ChangePatch::default()
        })?;
        Ok(Self { patch, ..self })
    }

    /// Applies the update to a change, and returns the change.
    pub(crate) async fn send(self, client: &Client, id: ChangeId) -> Outcome<Change> {
        let mut patch = self.patch;
        let missing = Missing::of_flag(self.create_missing);
        let services = names::all_non_empty(self.services.as_deref());
        if !services.is_empty() {
            let ids = names::resolve_all::<Service>(client, &services, missing).await?;
            patch.service_ids = Some(ids);
        }
        if let Some(name) = non_empty(self.host.as_deref()) {
            patch.host_id = Some(names::resolve::<Host>(client, name, missing).await?);
        }
        let is_edit = !self.tags.is_empty()
            || !self.links.is_empty()
            || self.note.is_some()
            || self.passage.is_some();
        // A late update may have been recorded before, if only its answer was lost.
        if is_edit || self.made_at.is_some() {
            // As late as possible: the change is read here and written back.
            let change = client.changes().get(id).await?;
            if !self.tags.is_empty() {
                patch.tags = Some(self.tags.apply(&change.tags, |tag| tag));
            }
            if !self.links.is_empty() {
                patch.links = Some(self.links.apply(&change.links, |link| &link.label));
            }
            if let Some(passage) = self.passage {
                patch.description = Some(Some(passage.replace(change.description.as_deref())));
            }
            let text = change.description.as_deref().unwrap_or_default();
            let has = |note: &String| self.made_at.is_some() && has_paragraphs(text, note.trim());
            if let Some(note) = self.note.filter(|note| !has(note)) {
                let description = Some(text.trim_end()).filter(|text| !text.is_empty());
                let description = description.map(|text| format!("{text}\n\n{note}"));
                patch.description = Some(Some(description.unwrap_or(note)));
            }
            if let Some(at) = self.made_at {
                set_times(&mut patch, &change, at);
            }
            if patch == ChangePatch::default() {
                return Ok(change);
            }
            patch = patch.checked(time::now())?;
        }
        send_patch(client, id, patch, self.has_given_times).await
    }
}

/// Applies a status that a change reached at `at` to what the change is now: adds the time,
/// unless the update has it, and leaves the status as it is if it was changed since.
fn set_times(patch: &mut ChangePatch, change: &Change, at: Timestamp) {
    let Some(status) = patch.status.clone() else {
        return;
    };
    let given = if status.is_ended() {
        patch.ended_at
    } else {
        patch.started_at
    };
    let at = given.flatten().unwrap_or(at);
    if is_moved_since(change, &status, at) {
        note(&format!(
            "the status of {} stays {}: it was changed after this update was made",
            change.id, change.status
        ));
        patch.status = None;
        patch.outcome = None;
        patch.reason = None;
        patch.ended_at = None;
    }
    if status == Status::InProgress {
        // A change that is opened again keeps its start.
        if change.started_at.is_none_or(|start| at < start) {
            patch.started_at.get_or_insert(Some(at));
        }
    } else if patch.status.is_some() && status.is_ended() && status != change.status {
        // A clock that was set back must not end the change before its start.
        let start = patch.started_at.flatten().or(change.started_at);
        patch
            .ended_at
            .get_or_insert(Some(start.map_or(at, |start| at.max(start))));
    }
}

/// Returns whether a change has got its status after an update to `status` was made.
fn is_moved_since(change: &Change, status: &Status, at: Timestamp) -> bool {
    let since = |time: Option<Timestamp>| time.is_some_and(|time| time >= at);
    match &change.status {
        present if present == status => false,
        Status::Planned => false,
        Status::InProgress => *status == Status::Planned && since(change.started_at),
        _ => since(change.ended_at),
    }
}

/// Updates a change. If the server rejects only times of the clock of this machine, its own
/// time is recorded.
async fn send_patch(
    client: &Client,
    id: ChangeId,
    patch: ChangePatch,
    has_given_times: bool,
) -> Outcome<Change> {
    let changes = client.changes();
    match changes.update_with(id, patch.clone()).send().await {
        Err(error)
            if !has_given_times
                && rejects_only_time(&error)
                && (patch.started_at.is_some() || patch.ended_at.is_some()) =>
        {
            warn_clock_ahead();
            let patch = ChangePatch {
                started_at: None,
                ended_at: None,
                ..patch
            };
            Ok(changes.update_with(id, patch).send().await?)
        }
        updated => Ok(updated?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_replaces_its_predecessor_and_nothing_else() {
        let passage = Passage {
            old: "Command: `x`\n\nrunning".to_owned(),
            new: "Command: `x`\n\nExit code 0".to_owned(),
        };
        for (before, after) in [
            (None, "Command: `x`\n\nExit code 0"),
            (
                Some("Command: `x`\n\nrunning"),
                "Command: `x`\n\nExit code 0",
            ),
            (
                Some("intro\n\nCommand: `x`\n\nrunning\n\na note"),
                "intro\n\nCommand: `x`\n\nExit code 0\n\na note",
            ),
            (Some("edited\n"), "edited\n\nCommand: `x`\n\nExit code 0"),
            (
                Some("intro\n\nCommand: `x`\n\nExit code 0\n\na note"),
                "intro\n\nCommand: `x`\n\nExit code 0\n\na note",
            ),
        ] {
            assert_eq!(passage.replace(before), after, "{before:?}");
        }
        let long = "x".repeat(MAX_LONG_TEXT_CHARS);
        let replaced = passage.replace(Some(&long));
        assert_eq!(replaced.chars().count(), MAX_LONG_TEXT_CHARS);
    }
}
