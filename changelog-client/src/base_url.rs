//! The URL of the service.

use std::fmt;

use url::Url;

use crate::error::Error;

/// The URL of the service, without a trailing slash, a query or a fragment. Its
/// path is kept: the service may be published below a path by a proxy.
#[derive(Debug)]
pub(crate) struct BaseUrl(Url);

impl BaseUrl {
    /// Parses a URL. The errors do not repeat it, because it may contain a
    /// password.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |what: &str| Err(Error::Builder(format!("url: {what}")));
        let text = text.trim();
        if text.is_empty() {
            return invalid("is required, for example https://changes.example.com");
        }
        let Ok(mut url) = Url::parse(text) else {
            return invalid(
                "must begin with http:// or https://, such as https://changes.example.com",
            );
        };
        if !matches!(url.scheme(), "http" | "https") {
            // `localhost:8080` has a scheme, too.
            let is_plain = !text.contains("//") && !text.contains('@');
            return invalid(&if is_plain {
                format!("must begin with http:// or https://; did you mean http://{text}?")
            } else {
                format!("must begin with http:// or https://, got {}:", url.scheme())
            });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("must not contain a user name or password");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return invalid("must not contain a query or a fragment");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Returns the URL of an endpoint; `path` has the segments after `/api`.
    pub(crate) fn endpoint(&self, path: &[String], query: Option<&str>) -> Result<Url, Error> {
        let mut url = self.0.clone();
        url.path_segments_mut()
            .map_err(|()| Error::Builder("url: cannot have a path".to_owned()))?
            .pop_if_empty()
            .push("api")
            .extend(path);
        url.set_query(query);
        Ok(url)
    }

    /// Returns the URL for messages of the Model Context Protocol.
    pub(crate) fn mcp(&self) -> Result<Url, Error> {
        let mut url = self.0.clone();
        url.path_segments_mut()
            .map_err(|()| Error::Builder("url: cannot have a path".to_owned()))?
            .pop_if_empty()
            .push("mcp");
        Ok(url)
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.0
    }

    pub(crate) fn is_plain_http(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_trailing_slash_and_keep_their_path() {
        for (given, expected) in [
            ("http://localhost:8080", "http://localhost:8080"),
            ("http://localhost:8080/", "http://localhost:8080"),
            (
                " https://example.com/changes/ ",
                "https://example.com/changes",
            ),
            ("https://example.com/a/b", "https://example.com/a/b"),
        ] {
            assert_eq!(BaseUrl::parse(given).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn a_url_without_a_scheme_is_suggested_with_one() {
        let error = BaseUrl::parse("localhost:8080").unwrap_err().to_string();
        assert!(
            error.contains("did you mean http://localhost:8080?"),
            "{error}"
        );
        let error = BaseUrl::parse("me:hunter2@example.com")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn errors_do_not_repeat_the_password() {
        for invalid in [
            "",
            "localhost",
            "localhost:8080",
            "ftp://example.com",
            "http://",
            "https://me:hunter2@example.com",
            "https://example.com?x=1",
            "https://example.com#x",
        ] {
            let Err(error) = BaseUrl::parse(invalid) else {
                panic!("{invalid} is accepted");
            };
            let message = error.to_string();
            assert!(message.starts_with("url: "), "{invalid}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn endpoints_keep_the_path_of_the_url_and_escape_their_own() {
        let path = ["changes".to_owned(), "a b/c".to_owned()];
        for (url, expected) in [
            ("http://h", "http://h/api/changes/a%20b%2Fc?page=1"),
            ("http://h/", "http://h/api/changes/a%20b%2Fc?page=1"),
            ("http://h/p/q", "http://h/p/q/api/changes/a%20b%2Fc?page=1"),
        ] {
            let endpoint = BaseUrl::parse(url).unwrap().endpoint(&path, Some("page=1"));
            assert_eq!(endpoint.unwrap().as_str(), expected);
        }
    }
}
