//! Repositories by their URLs: their names, and the URLs of their commits,
//! branches and pull requests.
//!
//! A remote's URL may hold a token (`https://oauth2:TOKEN@…`). Only its host,
//! port and path are used, and the path only if no part of it could be a
//! credential in the wrong place.

use percent_encoding::percent_decode_str;
use url::Url;

/// A repository on a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// `owner/name`, or its path.
    pub(crate) name: String,
    /// The URL of its page; none if it is not known.
    page: Option<Url>,
    forge: Forge,
}

/// The scheme of a forge's URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forge {
    /// Also Gitea, Forgejo and unknown forges: most use GitHub's scheme.
    GitHub,
    GitLab,
    Bitbucket,
    Azure,
}

impl Repository {
    /// Parses the URL of a page such as `https://github.com/owner/name`.
    pub(crate) fn of_page(address: &str) -> Option<Self> {
        let url = web_url(address)?;
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

    /// Parses the URL of a remote: `https://…`, `ssh://…`, or
    /// `git@host:owner/name.git`. None for a path on this machine.
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
                // A single letter is a drive.
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
        // A host that is reached through ssh may have no web pages. A known
        // forge has them at its usual port.
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

    /// Returns a repository whose page is not known.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(Self {
            name: segments(name)?.join("/"),
            page: None,
            forge: Forge::GitHub,
        })
    }

    /// Returns the URL of a commit.
    pub(crate) fn commit(&self, id: &str) -> Option<String> {
        match self.forge {
            Forge::GitHub | Forge::Azure => self.below(&["commit", id]),
            Forge::GitLab => self.below(&["-", "commit", id]),
            Forge::Bitbucket => self.below(&["commits", id]),
        }
    }

    /// Returns the URL of a branch or a tag.
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

    /// Returns the URL of a pull request.
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

/// Guesses a forge from the name of its host.
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

/// Returns whether a host is a public name.
fn is_domain(host: &str) -> bool {
    host.contains('.')
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

/// Splits a path into segments; none unless it clearly is the path of a
/// repository.
fn segments(path: &str) -> Option<Vec<&str>> {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let is_valid = |segment: &&str| {
        !segment.is_empty()
            && !matches!(*segment, "." | "..")
            && segment
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '%'))
    };
    let segments: Vec<&str> = path.split('/').collect();
    (segments.len() <= 10 && segments.iter().all(is_valid)).then_some(segments)
}

fn with_path(url: &Url, segments: &[&str]) -> Option<Url> {
    let mut url = url.clone();
    url.set_path(&segments.join("/"));
    // A link to this machine is of no use elsewhere.
    let local = matches!(url.host_str()?, "localhost" | "127.0.0.1" | "[::1]");
    (!local).then_some(url)
}

/// Returns a web URL without the parts that may be secret: user name,
/// password, query and fragment. None for other URLs.
pub(crate) fn web_url(text: &str) -> Option<Url> {
    let mut url = Url::parse(text.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_secret_parts() {
        let url = web_url("https://user:token@e.com/a/b?private_token=x#y").unwrap();
        assert_eq!(url.as_str(), "https://e.com/a/b");
        for bad in ["", "ssh://e.com/a", "file:///etc", "javascript:alert(1)"] {
            assert_eq!(web_url(bad), None, "{bad}");
        }
    }

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
    fn doubtful_remotes_are_none() {
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
