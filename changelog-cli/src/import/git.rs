//! Changes out of a repository's history: its tags, and what was merged.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use changelog_core::limits::{MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_TITLE_CHARS};
use changelog_core::{NewChange, Status, Timestamp};

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::environment::git;

/// Of how many characters a commit is told in a title.
const SHORT: usize = 7;
/// The parts of a merge: hash, committer's time, subject, body.
const MERGE: &str = "--format=tformat:%H%x00%ct%x00%s%x00%b";
/// The parts of a tag: name, what it points at, both hashes, both times (its
/// own, and that of the commit), subject, body.
const TAG: &str = "--format=%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objecttype)%00\
                   %(*objectname)%00%(taggerdate:unix)%00%(committerdate:unix)%00\
                   %(contents:subject)%00%(contents:body)%00";

/// Reads the history of the repository in the current folder, as NDJSON.
pub(crate) fn history(range: &str) -> Outcome<Vec<u8>> {
    if range.starts_with('-') || range.trim().is_empty() {
        return Err(Failure::usage(format!(
            "--git: must be a range of commits such as v1.0..HEAD, got {range:?}"
        )));
    }
    let root = text(&ask(&["rev-parse", "--show-toplevel"])?);
    if text(&ask(&["rev-parse", "--is-shallow-repository"])?) == "true" {
        warn("the repository is shallow: what lies before its first commit is not imported");
    }
    // Asked for first, so that a range that is none is told before anything.
    let commits = ask(&["rev-list", "--end-of-options", range, "--"])?;
    let commits = String::from_utf8_lossy(&commits);
    let commits: HashSet<&str> = commits.lines().collect();
    let merges = ask(&[
        "log",
        "-z",
        "--first-parent",
        "--merges",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        MERGE,
        "--end-of-options",
        range,
        "--",
    ])?;
    let refs = ask(&["for-each-ref", TAG, "refs/tags"])?;
    let repository = repository(&remote(), &root);
    let mut changes = tags(&refs, &commits);
    changes.extend(read_merges(&merges));
    let mut ndjson = Vec::new();
    for found in changes {
        let change = found.into_change(repository.as_deref());
        let line = serde_json::to_vec(&change)
            .map_err(|error| Failure::new(Exit::Other, format!("cannot write JSON: {error}")))?;
        ndjson.extend(line);
        ndjson.push(b'\n');
    }
    Ok(ndjson)
}

/// Something of the history.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    title: String,
    description: String,
    commit: String,
    at: i64,
}

impl Found {
    fn into_change(self, repository: Option<&str>) -> NewChange {
        let mut tags = Vec::new();
        tags.extend(repository.map(|name| shortened(&format!("repo={name}"), MAX_NAME_CHARS)));
        tags.push(format!("commit={}", self.commit));
        NewChange {
            title: shortened(&one_line(&self.title), MAX_TITLE_CHARS),
            description: Some(shortened(&lines(&self.description), MAX_LONG_TEXT_CHARS))
                .filter(|text| !text.is_empty()),
            status: Some(Status::Completed),
            tags,
            occurred_at: Some(Timestamp::from_millis(self.at.saturating_mul(1000))),
            ..NewChange::default()
        }
    }
}

fn read_merges(output: &[u8]) -> Vec<Found> {
    let output = String::from_utf8_lossy(output);
    let parts: Vec<&str> = output.split('\0').collect();
    parts
        .chunks_exact(4)
        .filter_map(|parts| {
            let &[commit, at, subject, body] = parts else {
                return None;
            };
            let short: String = commit.chars().take(SHORT).collect();
            let title = match subject.trim() {
                "" => format!("Merge {short}"),
                subject if subject.chars().count() < 3 => format!("Merge {short}: {subject}"),
                subject => subject.to_owned(),
            };
            Some(Found {
                title,
                description: body.to_owned(),
                commit: commit.to_owned(),
                at: at.trim().parse().ok()?,
            })
        })
        .collect()
}

/// Reads the tags that stand at one of these commits.
fn tags(output: &[u8], commits: &HashSet<&str>) -> Vec<Found> {
    let output = String::from_utf8_lossy(output);
    let parts: Vec<&str> = output.split('\0').collect();
    parts
        .chunks_exact(9)
        .filter_map(|parts| {
            let &[
                name,
                kind,
                own,
                kind_within,
                within,
                tagged,
                committed,
                subject,
                body,
            ] = parts
            else {
                return None;
            };
            // The line feed before it ends the tag before.
            let name = name.trim_start_matches('\n');
            let is_annotated = kind == "tag";
            let (commit, kind, at) = if is_annotated {
                (within, kind_within, tagged)
            } else {
                (own, kind, committed)
            };
            if kind != "commit" || !commits.contains(commit) {
                return None;
            }
            // The message of a plain tag would be that of its commit.
            let message = format!("{subject}\n\n{body}");
            Some(Found {
                title: format!("Tag {name}"),
                description: if is_annotated { message } else { String::new() },
                commit: commit.to_owned(),
                at: at.trim().parse().ok()?,
            })
        })
        .collect()
}

/// Returns where the repository comes from; empty where it is known to come from
/// nowhere.
fn remote() -> String {
    ask(&["config", "--get", "remote.origin.url"])
        .map(|url| text(&url))
        .unwrap_or_default()
}

/// Names a repository after its remote, as `owner/name`, or after its folder.
/// Whatever stands in front of the path (the host, a user and a password) is not
/// part of a name.
fn repository(remote: &str, root: &str) -> Option<String> {
    let path = match url::Url::parse(remote) {
        Ok(url) if url.has_host() => Some(url.path().to_owned()),
        // git@example.com:owner/name.git
        _ => {
            let behind = remote.rsplit_once('@').map_or(remote, |(_, behind)| behind);
            let parts = behind.split_once(':');
            let parts = parts.filter(|(host, _)| !host.contains('/'));
            parts.map(|(_, path)| path.to_owned())
        }
    };
    let name = if let Some(path) = path {
        path
    } else {
        // A path of this machine says nothing elsewhere, but for its end.
        let path = if remote.is_empty() { root } else { remote };
        let end = Path::new(path.trim_end_matches('/')).file_name()?;
        end.to_string_lossy().into_owned()
    };
    let name = name.trim_matches('/');
    let name = one_line(name.strip_suffix(".git").unwrap_or(name));
    (!name.is_empty()).then_some(name)
}

/// Runs git in the current folder and returns what it prints.
fn ask(arguments: &[&str]) -> Outcome<Vec<u8>> {
    let output = git::command()
        .args(arguments)
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::usage("--git: the program git is not installed"),
            _ => Failure::new(Exit::Other, format!("cannot run git: {error}")),
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix("fatal: ").unwrap_or(said.trim());
    Err(Failure::usage(format!("--git: git says: {said}")))
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

/// Takes what a title cannot have out of a text.
fn one_line(text: &str) -> String {
    let spaced = text.replace(|c: char| c.is_control(), " ");
    spaced.trim().to_owned()
}

/// Takes what a description cannot have out of a text.
fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', " ")
        .trim()
        .to_owned()
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
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
            ("user:secret@example.com:owner/name", "owner/name"),
            ("/srv/git/name.git", "name"),
            ("../name", "name"),
            ("", "folder"),
        ] {
            let named = repository(remote, "/home/me/folder");
            assert_eq!(named.as_deref(), Some(expected), "{remote}");
        }
    }
}
