//! The run of a pipeline, as its token tells it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::PUBLIC_ISSUERS;
use crate::limits::MAX_CLAIM_CHARS;

/// Which job a token was made for, as its issuer has signed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifiedRun {
    /// The issuer.
    #[cfg_attr(
        feature = "openapi",
        schema(example = "https://token.actions.githubusercontent.com")
    )]
    pub issuer: String,
    /// The subject of the token.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub subject: Option<String>,
    /// The repository or project.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "acme/shop"))]
    pub repository: Option<String>,
    /// The commit for which the job runs.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "1a2b3c4d5e6f"))]
    pub commit: Option<String>,
    /// The branch or tag.
    #[serde(default, rename = "ref")]
    #[cfg_attr(feature = "openapi", schema(required, example = "refs/heads/main"))]
    pub git_ref: Option<String>,
    /// The user who started the job.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "ada"))]
    pub actor: Option<String>,
    /// The id of the run or job.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "1234567890"))]
    pub run: Option<String>,
    /// The page of the run or job, if the issuer is one whose pages are known.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub run_url: Option<String>,
}

impl VerifiedRun {
    /// Reads the claims of a token whose signature is right.
    pub fn of(issuer: &str, claims: &Map<String, Value>) -> Self {
        let text = |name: &str| match claims.get(name)? {
            Value::String(text) => Some(shown(text)),
            number @ Value::Number(_) => Some(number.to_string()),
            _ => None,
        };
        let mut run = Self {
            issuer: issuer.to_owned(),
            subject: text("sub"),
            ..Self::default()
        };
        if let Some(project) = text("project_path") {
            run.commit = text("sha");
            run.git_ref = text("ref");
            run.actor = text("user_login");
            run.run = text("job_id").or_else(|| text("pipeline_id"));
            run.run_url = run
                .run
                .as_ref()
                .filter(|_| claims.contains_key("job_id"))
                .map(|job| format!("{}/{project}/-/jobs/{job}", issuer.trim_end_matches('/')));
            run.repository = Some(project);
        } else {
            run.repository = text("repository");
            run.commit = text("sha");
            run.git_ref = text("ref");
            run.actor = text("actor");
            run.run = text("run_id");
            run.run_url = match (&run.repository, &run.run, github_of(issuer)) {
                (Some(repository), Some(id), Some(server)) => {
                    Some(format!("{server}/{repository}/actions/runs/{id}"))
                }
                _ => None,
            };
        }
        // Only what is a link may be shown as one.
        run.run_url.take_if(|url| !is_plain_web_url(url));
        run
    }

    /// Returns the name of the pipeline: its system and its repository, as in
    /// `github acme/shop`, or else the host of the issuer and the subject.
    pub fn name(&self, claims: &Map<String, Value>) -> String {
        let host = url::Url::parse(&self.issuer).ok();
        let host = host.as_ref().and_then(url::Url::host_str);
        let system = if claims.contains_key("project_path") {
            "gitlab"
        } else if claims.contains_key("repository") {
            "github"
        } else {
            host.unwrap_or("token")
        };
        let what = self.repository.as_ref().or(self.subject.as_ref());
        what.map_or_else(|| system.to_owned(), |what| format!("{system} {what}"))
    }
}

/// Returns the address of a GitHub by that of its issuer.
fn github_of(issuer: &str) -> Option<String> {
    if issuer == PUBLIC_ISSUERS[0] {
        return Some("https://github.com".to_owned());
    }
    // GitHub Enterprise Server.
    let server = issuer.strip_suffix("/_services/token")?;
    Some(server.to_owned())
}

fn is_plain_web_url(text: &str) -> bool {
    !text.contains(|c: char| c.is_whitespace() || c.is_control())
        && url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "https" | "http"))
}

/// Makes a claim fit to be shown in one line.
fn shown(text: &str) -> String {
    let one_line = text.chars().filter(|c| !c.is_control());
    one_line.take(MAX_CLAIM_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_run_is_read_from_the_tokens_of_each_system() {
        let github = claims(&json!({
            "sub": "repo:acme/shop:ref:refs/heads/main", "repository": "acme/shop", "sha": "1a2b",
            "ref": "refs/heads/main", "actor": "ada", "run_id": "7",
        }));
        let run = VerifiedRun::of(PUBLIC_ISSUERS[0], &github);
        assert_eq!(run.name(&github), "github acme/shop");
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://github.com/acme/shop/actions/runs/7")
        );
        let run = VerifiedRun::of("https://ghe.example/_services/token", &github);
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://ghe.example/acme/shop/actions/runs/7")
        );
        assert_eq!(VerifiedRun::of("https://x.example", &github).run_url, None);
        let gitlab = claims(&json!({
            "project_path": "acme/web/shop", "sha": "1a2b", "ref": "main", "user_login": "ada",
            "job_id": "9", "pipeline_id": "8",
        }));
        let run = VerifiedRun::of("https://gitlab.example", &gitlab);
        assert_eq!(run.name(&gitlab), "gitlab acme/web/shop");
        assert_eq!(run.actor.as_deref(), Some("ada"));
        assert_eq!(
            run.run_url.as_deref(),
            Some("https://gitlab.example/acme/web/shop/-/jobs/9")
        );
        let other = claims(&json!({ "sub": "system:serviceaccount:shop:deployer\u{7}" }));
        let run = VerifiedRun::of("https://k8s.example", &other);
        assert_eq!(
            run.name(&other),
            "k8s.example system:serviceaccount:shop:deployer"
        );
    }
}
