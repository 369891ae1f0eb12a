//! Changes from the history of a git repository: its tags and merges.

use std::collections::HashSet;
use std::path::Path;

use changelog_core::limits::{
    MAX_EMAIL_CHARS, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_TITLE_CHARS,
};
use changelog_core::{NewChange, Status, Timestamp};

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::text::{controls_to_spaces, shorten};
use crate::environment::git;
use crate::environment::repository::Repository;

/// The length of a commit id in a title, in characters.
const SHORT_ID: usize = 7;
/// The format of a merge: hash, committer's time, author, subject, body.
const MERGE_FORMAT: &str = "--format=tformat:%H%x00%ct%x00%an%x00%s%x00%b";
/// The format of a tag: name, its own type and hash, the type, hash and committer's time
/// of its target, its tagger and the tagger's time, the author and the committer's time
/// of a commit, subject, body.
const TAG_FORMAT: &str = "--format=%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objecttype)%00\
                   %(*objectname)%00%(*committerdate:unix)%00%(taggername)%00%(taggerdate:unix)%00\
                   %(authorname)%00%(committerdate:unix)%00%(contents:subject)%00%(contents:body)%00";

/// Returns the history of the repository in the current directory as NDJSON.
pub(crate) fn history(range: &str) -> Outcome<Vec<u8>> {
    if range.starts_with('-') || range.trim().is_empty() {
        return Err(Failure::usage(format!(
            "--git: must be a range of commits such as v1.0..HEAD, got {range:?}"
        )));
    }
    let root = trimmed(&git::output(&["rev-parse", "--show-toplevel"])?);
    if trimmed(&git::output(&["rev-parse", "--is-shallow-repository"])?) == "true" {
        warn("the repository is a shallow clone: older history is not imported");
    }
    // First, so that an invalid range fails before anything else.
    let commits = git::output(&["rev-list", "--end-of-options", range, "--"])?;
    let commits = String::from_utf8_lossy(&commits);
    let commits: HashSet<&str> = commits.lines().collect();
    let merges = git::output(&[
        "log",
        "-z",
        "--first-parent",
        "--merges",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        MERGE_FORMAT,
        "--end-of-options",
        range,
        "--",
    ])?;
    let refs = git::output(&["for-each-ref", TAG_FORMAT, "refs/tags"])?;
    let repository = repository_name(&remote_url(), &root);
    let mut events = read_tags(&refs, &commits);
    events.extend(read_merges(&merges));
    let mut ndjson = Vec::new();
    for event in events {
        let change = event.into_change(repository.as_deref());
        let line = serde_json::to_vec(&change)
            .map_err(|error| Failure::new(Exit::Other, format!("cannot write JSON: {error}")))?;
        ndjson.extend(line);
        ndjson.push(b'\n');
    }
    Ok(ndjson)
}

/// A tag or a merge.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    title: String,
    description: String,
    commit: String,
    committed_at: Option<Timestamp>,
    /// Who made it.
    person: String,
    at: Timestamp,
}

impl Event {
    fn into_change(self, repository: Option<&str>) -> NewChange {
        let mut tags = Vec::new();
        tags.extend(repository.map(|name| shorten(&format!("repo={name}"), MAX_NAME_CHARS)));
        // As long as that of other changes: a tag is found only as a whole.
        let short: String = self.commit.chars().take(SHORT_ID).collect();
        tags.push(format!("commit={short}"));
        NewChange {
            title: shorten(&controls_to_spaces(&self.title), MAX_TITLE_CHARS),
            description: Some(shorten(
                &clean_lines(&self.description),
                MAX_LONG_TEXT_CHARS,
            ))
            .filter(|text| !text.is_empty()),
            status: Some(Status::Completed),
            tags,
            on_behalf_of: Some(shorten(&controls_to_spaces(&self.person), MAX_EMAIL_CHARS))
                .filter(|person| !person.is_empty()),
            commit: Some(self.commit),
            committed_at: self.committed_at,
            occurred_at: Some(self.at),
            ..NewChange::default()
        }
    }
}

fn read_merges(output: &[u8]) -> Vec<Event> {
    let output = String::from_utf8_lossy(output);
    let parts: Vec<&str> = output.split('\0').collect();
    parts
        .chunks_exact(5)
        .filter_map(|parts| {
            let &[commit, at, person, subject, body] = parts else {
                return None;
            };
            let at = time(at)?;
            let short: String = commit.chars().take(SHORT_ID).collect();
            let title = match subject.trim() {
                "" => format!("Merge {short}"),
                subject if subject.chars().count() < 3 => format!("Merge {short}: {subject}"),
                subject => subject.to_owned(),
            };
            Some(Event {
                title,
                description: body.to_owned(),
                commit: commit.to_owned(),
                committed_at: Some(at),
                person: person.to_owned(),
                at,
            })
        })
        .collect()
}

/// Reads the tags of the given commits.
fn read_tags(output: &[u8], commits: &HashSet<&str>) -> Vec<Event> {
    let output = String::from_utf8_lossy(output);
    let parts: Vec<&str> = output.split('\0').collect();
    parts
        .chunks_exact(12)
        .filter_map(|parts| {
            let &[
                name,
                kind,
                own,
                kind_within,
                within,
                committed_within,
                tagger,
                tag_time,
                author,
                committed,
                subject,
                body,
            ] = parts
            else {
                return None;
            };
            // The line feed ends the tag before.
            let name = name.trim_start_matches('\n');
            let is_annotated = kind == "tag";
            let (commit, kind, committed, person, at) = if is_annotated {
                (within, kind_within, committed_within, tagger, tag_time)
            } else {
                (own, kind, committed, author, committed)
            };
            if kind != "commit" || !commits.contains(commit) {
                return None;
            }
            // The message of a plain tag would be that of its commit.
            let message = format!("{subject}\n\n{body}");
            Some(Event {
                title: format!("Tag {name}"),
                description: if is_annotated { message } else { String::new() },
                commit: commit.to_owned(),
                committed_at: time(committed),
                person: person.to_owned(),
                at: time(at)?,
            })
        })
        .collect()
}

/// Parses seconds since 1970.
fn time(seconds: &str) -> Option<Timestamp> {
    let seconds: i64 = seconds.trim().parse().ok()?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

/// Returns the URL of the remote `origin`; empty if there is none.
fn remote_url() -> String {
    git::output(&["config", "--get", "remote.origin.url"])
        .map(|url| trimmed(&url))
        .unwrap_or_default()
}

/// Returns the name of a repository: `owner/name` from its remote, the last part
/// of a remote that is a path on this machine, or else the name of its
/// directory.
fn repository_name(remote: &str, root: &str) -> Option<String> {
    if let Some(repository) = Repository::of_remote(remote) {
        return Some(repository.name);
    }
    // What looks like a URL may hold a password.
    let is_path = !remote.is_empty() && !remote.contains(['@', ':']);
    let path = if is_path { remote } else { root };
    let name = Path::new(path.trim_end_matches('/')).file_name()?;
    let name = name.to_string_lossy();
    let name = controls_to_spaces(name.strip_suffix(".git").unwrap_or(&name));
    (!name.is_empty()).then_some(name)
}

fn trimmed(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

/// Removes the control characters that a description must not have.
fn clean_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_named_without_their_credentials() {
        for (remote, expected) in [
            ("https://me:secret@example.com/owner/name.git", "owner/name"),
            ("https://example.com/group/sub/name", "group/sub/name"),
            ("ssh://git@example.com:2222/owner/name.git/", "owner/name"),
            ("git@example.com:owner/name.git", "owner/name"),
            ("user:secret@example.com:owner/name", "folder"),
            ("/srv/git/name.git", "name"),
            ("../name", "name"),
            ("https://me:se/cret@example.com/name", "folder"),
            ("", "folder"),
        ] {
            let name = repository_name(remote, "/home/me/folder");
            assert_eq!(name.as_deref(), Some(expected), "{remote}");
        }
    }

    #[test]
    fn merges_and_tags_become_changes() {
        let commit = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
        let merges = read_merges(format!("{commit}\0123\0Ada\0ab\0Body\0").as_bytes());
        assert_eq!(merges.len(), 1);
        assert_eq!(
            (&*merges[0].title, merges[0].at.millis()),
            ("Merge 1a2b3c4: ab", 123_000)
        );
        let tags = format!(
            "v1\0tag\0x\0commit\0{commit}\090\0Grace\0100\0\0\0Release\0All of it\0\n\
             v0\0commit\0{commit}\0\0\0\0\0\0Ada\099\0Fix\0\0\n\
             other\0commit\0y\0\0\0\0\0\0Ada\098\0Fix\0\0\n"
        );
        let tags = read_tags(tags.as_bytes(), &HashSet::from([commit]));
        let found: Vec<_> = tags
            .iter()
            .map(|tag| (&*tag.title, &*tag.person, tag.at.millis()))
            .collect();
        let expected = [("Tag v1", "Grace", 100_000), ("Tag v0", "Ada", 99_000)];
        assert_eq!(found, expected);
        assert!(tags[0].description.contains("All of it") && tags[1].description.is_empty());
        let change = tags
            .into_iter()
            .next()
            .unwrap()
            .into_change(Some("owner/name"));
        assert_eq!(change.tags[0], "repo=owner/name");
        assert_eq!(change.on_behalf_of.as_deref(), Some("Grace"));
        assert_eq!(change.commit.as_deref(), Some(commit));
        let committed = change.committed_at.map(Timestamp::millis);
        assert_eq!(committed, Some(90_000));
    }
}
