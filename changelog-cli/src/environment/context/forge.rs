//! Repositories by their addresses: what they are called, and where their
//! commits and branches are shown.
//!
//! Remote addresses carry tokens (`https://oauth2:TOKEN@…`). Of an address only
//! the host, the port and the path are taken, and a path only if nothing in it
//! could be part of a credential that was written wrongly.

use percent_encoding::percent_decode_str;
use url::Url;

use super::web_address;

/// A repository on some forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// `owner/name`, or whatever its path is.
    pub(crate) name: String,
    /// Its page; none where it is not known how the forge shows it.
    page: Option<Url>,
    forge: Forge,
}

/// How a forge addresses what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forge {
    /// Also Gitea, Forgejo, and what is not known: most do as GitHub does.
    GitHub,
    GitLab,
    Bitbucket,
    Azure,
}

impl Repository {
    /// Reads the address of a page such as `https://github.com/owner/name`.
    pub(crate) fn of_page(address: &str) -> Option<Self> {
        let url = web_address(address)?;
        let host = url.host_str()?.to_owned();
        let segments = segments(url.path())?;
        let forge = forge(&host).unwrap_or(Forge::GitHub);
        let name = segments
            .iter()
            .copied()
            .filter(|segment| forge != Forge::Azure || *segment != "_git")
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
            .collect::<Vec<_>>()
            .join("/");
        let page = with_path(&url, &segments);
        Some(Self { name, page, forge })
    }

    /// Reads the address of a remote: `https://…`, `ssh://…`, or
    /// `git@host:owner/name.git`. None for what is a path on this machine.
    pub(crate) fn of_remote(remote: &str) -> Option<Self> {
        let remote = remote.trim();
        if remote.starts_with("http://") || remote.starts_with("https://") {
            return Self::of_page(remote);
        }
        let (host, port, path) = match Url::parse(remote) {
            Ok(url) if matches!(url.scheme(), "ssh" | "git+ssh" | "git") => (
                url.host_str()?.to_owned(),
                url.port(),
                url.path().to_owned(),
            ),
            _ if remote.contains("://") => return None,
            _ => {
                let (at, path) = remote.split_once(':')?;
                let host = at.rsplit_once('@').map_or(at, |(_, host)| host);
                // One letter is a drive.
                if host.len() < 2 || at.contains('/') {
                    return None;
                }
                (host.to_owned(), None, path.to_owned())
            }
        };
        if host == "ssh.dev.azure.com" {
            let path = segments(&path)?;
            let [_, organization, project, name] = path[..] else {
                return None;
            };
            return Self::of_page(&format!(
                "https://dev.azure.com/{organization}/{project}/_git/{name}"
            ));
        }
        let segments = segments(&path)?;
        // A host that is reached through ssh need not have pages; a known forge
        // has, at its usual port.
        let known = forge(&host);
        let page = match (known, port) {
            (Some(_), _) if is_domain(&host) => Url::parse(&format!("https://{host}"))
                .ok()
                .and_then(|url| with_path(&url, &segments)),
            _ => None,
        };
        Some(Self {
            name: segments.join("/"),
            page,
            forge: known.unwrap_or(Forge::GitHub),
        })
    }

    /// Makes a repository of which only the name is known.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(Self {
            name: segments(name)?.join("/"),
            page: None,
            forge: Forge::GitHub,
        })
    }

    /// Returns where a commit is shown.
    pub(crate) fn commit(&self, id: &str) -> Option<String> {
        match self.forge {
            Forge::GitHub | Forge::Azure => self.below(&["commit", id]),
            Forge::GitLab => self.below(&["-", "commit", id]),
            Forge::Bitbucket => self.below(&["commits", id]),
        }
    }

    /// Returns where a branch or a tag is shown.
    pub(crate) fn branch(&self, name: &str) -> Option<String> {
        let mut path = match self.forge {
            Forge::GitHub => vec!["tree"],
            Forge::GitLab => vec!["-", "tree"],
            Forge::Bitbucket => vec!["branch"],
            Forge::Azure => {
                let mut url = self.page.clone()?;
                url.query_pairs_mut()
                    .append_pair("version", &format!("GB{name}"));
                return Some(url.into());
            }
        };
        path.extend(name.split('/'));
        self.below(&path)
    }

    /// Returns where a pull request is shown.
    pub(crate) fn pull_request(&self, number: &str) -> Option<String> {
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        match self.forge {
            Forge::GitHub => self.below(&["pull", number]),
            Forge::GitLab => self.below(&["-", "merge_requests", number]),
            Forge::Bitbucket => self.below(&["pull-requests", number]),
            Forge::Azure => self.below(&["pullrequest", number]),
        }
    }

    fn below(&self, path: &[&str]) -> Option<String> {
        let mut url = self.page.clone()?;
        url.path_segments_mut().ok()?.pop_if_empty().extend(path);
        Some(url.into())
    }
}

/// Tells by its name what a host is; none if that says nothing.
fn forge(host: &str) -> Option<Forge> {
    let host = host.to_ascii_lowercase();
    let has = |name| host.split('.').any(|label| label == name);
    if host == "bitbucket.org" {
        Some(Forge::Bitbucket)
    } else if host == "dev.azure.com" || host.ends_with(".visualstudio.com") {
        Some(Forge::Azure)
    } else if has("gitlab") {
        Some(Forge::GitLab)
    } else if has("github") || has("gitea") || has("forgejo") || host == "codeberg.org" {
        Some(Forge::GitHub)
    } else {
        None
    }
}

/// Tells whether a host is a name that others can find as well.
fn is_domain(host: &str) -> bool {
    host.contains('.')
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

/// Splits a path into its segments; none if it is not the path of a repository
/// beyond doubt.
fn segments(path: &str) -> Option<Vec<&str>> {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let fine = |segment: &&str| {
        !segment.is_empty()
            && !matches!(*segment, "." | "..")
            && segment
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '%'))
    };
    let segments: Vec<&str> = path.split('/').collect();
    (segments.len() <= 10 && segments.iter().all(fine)).then_some(segments)
}

fn with_path(url: &Url, segments: &[&str]) -> Option<Url> {
    let mut url = url.clone();
    url.set_path(&segments.join("/"));
    // Nobody else finds this machine.
    let local = matches!(url.host_str()?, "localhost" | "127.0.0.1" | "[::1]");
    (!local).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_become_names_and_pages() {
        for (remote, name, commit) in [
            (
                "git@github.com:owner/repo.git",
                "owner/repo",
                Some("https://github.com/owner/repo/commit/abc"),
            ),
            (
                "https://x-access-token:ghs_secret@github.com/owner/repo.git?a=secret#secret",
                "owner/repo",
                Some("https://github.com/owner/repo/commit/abc"),
            ),
            (
                "ssh://git@gitlab.example.com:2222/group/sub/repo.git",
                "group/sub/repo",
                Some("https://gitlab.example.com/group/sub/repo/-/commit/abc"),
            ),
            (
                "https://gitlab-ci-token:secret@gitlab.com/group/repo",
                "group/repo",
                Some("https://gitlab.com/group/repo/-/commit/abc"),
            ),
            (
                "git@bitbucket.org:team/repo.git",
                "team/repo",
                Some("https://bitbucket.org/team/repo/commits/abc"),
            ),
            (
                "git@ssh.dev.azure.com:v3/org/project/repo",
                "org/project/repo",
                Some("https://dev.azure.com/org/project/_git/repo/commit/abc"),
            ),
            (
                "https://git.example.com:8443/owner/repo.git/",
                "owner/repo",
                Some("https://git.example.com:8443/owner/repo/commit/abc"),
            ),
            ("git@git.example.com:owner/repo.git", "owner/repo", None),
            ("git@build-box:owner/repo.git", "owner/repo", None),
            ("secret@git.example.com:owner/repo", "owner/repo", None),
        ] {
            let repository = Repository::of_remote(remote).unwrap();
            assert_eq!(repository.name, name, "{remote}");
            assert_eq!(repository.commit("abc").as_deref(), commit, "{remote}");
            assert!(!format!("{repository:?}").contains("secret"), "{remote}");
        }
    }

    #[test]
    fn what_is_no_repository_for_sure_is_none() {
        for remote in [
            "",
            "origin",
            "/srv/git/repo.git",
            "../repo",
            "file:///srv/git/repo.git",
            "C:\\repos\\repo",
            "C:/repos/repo",
            "ext::sh -c evil",
            "https://",
            // Passwords that were not encoded.
            "https://user:1/2@host/owner/repo",
            "https://user:se/cret@host/owner/repo",
            "user:secret@host:owner/repo",
            "git@host:../../etc",
        ] {
            assert_eq!(Repository::of_remote(remote), None, "{remote}");
        }
    }

    #[test]
    fn branches_and_pull_requests_are_addressed_as_the_forge_does() {
        let at = |remote: &str| Repository::of_remote(remote).unwrap();
        let github = at("git@github.com:o/r");
        assert_eq!(
            github.branch("feature/a b?c").unwrap(),
            "https://github.com/o/r/tree/feature/a%20b%3Fc"
        );
        assert_eq!(
            github.pull_request("12").unwrap(),
            "https://github.com/o/r/pull/12"
        );
        assert_eq!(github.pull_request("false"), None);
        assert_eq!(
            at("git@gitlab.com:o/r").pull_request("7").unwrap(),
            "https://gitlab.com/o/r/-/merge_requests/7"
        );
        assert_eq!(
            at("git@bitbucket.org:o/r").branch("main").unwrap(),
            "https://bitbucket.org/o/r/branch/main"
        );
        assert_eq!(
            at("https://org@dev.azure.com/org/p/_git/r")
                .branch("main")
                .unwrap(),
            "https://dev.azure.com/org/p/_git/r?version=GBmain"
        );
    }
}
