//! The pages, and requests to the API that only a session may send.

use uuid::Uuid;

use super::fixture::Fixture;

impl Fixture {
    /// Returns the paths of pages; some are about a person and a key.
    #[expect(clippy::too_many_lines, reason = "a list")]
    pub(super) fn pages(&self, owner: &str, key: &str) -> Vec<String> {
        let mut pages: Vec<String> = [
            "/",
            "/around",
            "/upcoming",
            "/changes/new",
            "/services",
            "/services?offset=50",
            "/services?q=pay",
            "/services?q=payments+ledger",
            "/services?sort=changes",
            "/services?sort=last",
            "/services/new",
            "/hosts?q=web",
            "/hosts?sort=last",
            "/hosts/new",
            "/names/services",
            "/names/services?prefix=pay",
            "/names/hosts?prefix=web",
            "/names/tags",
            "/names/tags?prefix=o",
            "/names/people?prefix=a",
            "/names/sources?prefix=g",
            "/names/incidents?prefix=d",
            "/incidents",
            "/incidents?status=open",
            "/incidents/new",
            "/views",
            "/hosts",
            "/hosts?offset=50",
            "/settings/api-keys",
            "/settings/workloads",
            "/settings/members",
            "/settings/organization",
            "/settings/sign-in",
            "/settings/integrations",
            "/settings/integrations/new",
            "/settings/sources",
            "/settings/sources/new",
            "/account",
            "/notifications",
            "/api/activity/actors",
            "/api/docs",
            "/problems/not_found",
        ]
        .map(str::to_owned)
        .into();
        for (path, id) in [
            ("changes", &self.change),
            ("services", &self.service),
            ("hosts", &self.host),
            ("incidents", &self.incident),
        ] {
            pages.push(format!("/{path}/{id}"));
            pages.push(format!("/{path}/{id}/edit"));
        }
        pages.push(format!(
            "/incidents?service={}&before={}",
            self.service, self.incident
        ));
        let at = self.until.replace(':', "%3A");
        for query in [
            format!("at={at}"),
            format!(
                "at={at}&service={}&host={}&environment=prod&q=deploy+needle&span=1d",
                self.service, self.host
            ),
            format!("at={at}&q=needle&window=7d"),
            "from=2026-01-30T00%3A00%3A00Z&to=2026-02-03T00%3A00%3A00Z".to_owned(),
            // More changes than can be drawn one by one: by hours, and by minutes.
            "from=2026-03-01T00%3A00%3A00Z&to=2026-03-02T00%3A00%3A00Z".to_owned(),
            "from=2026-03-01T09%3A00%3A00Z&to=2026-03-01T12%3A00%3A00Z".to_owned(),
        ] {
            pages.push(format!("/around?{query}"));
        }
        for query in [
            String::new(),
            "?range=4h".to_owned(),
            "?range=1w&min_risk=medium&per_page=100".to_owned(),
            format!("?created_by={}&risk_level=high", Uuid::now_v7()),
            "?page=2".to_owned(),
            format!("?service_id={}&host_id={}", self.service, self.host),
            format!("?q={}&tag={}", self.word, self.tag),
            format!("?text={}&environment=prod%2Cstaging", self.word),
            format!("?created_by={}&not_status=planned", self.author),
            "?created_by=terraform&min_risk=medium&status=completed%2Crolled_back".to_owned(),
            format!("?source={}&agent=terraform&by=hand", Uuid::now_v7()),
            "?by=agent%2Cpipeline".to_owned(),
            "?by=hand".to_owned(),
            format!(
                "?not_status=planned&since={}",
                self.since.replace(':', "%3A")
            ),
        ] {
            pages.push(format!("/changes{query}"));
        }
        // Downloads, here of few changes. The export of everything reads all by the same statements,
        // page by page.
        for query in [
            format!("tag={}&tag={}", self.tag, self.other_tag),
            format!("q={}&service_id={}", self.other_word, self.service),
            format!("host_id={}&tag={}", self.host, self.tag),
            format!("status=planned&tag={}", self.other_tag),
            format!(
                "status=planned,completed&environment=prod&tag={}",
                self.other_tag
            ),
            format!("text={}&created_by={}", self.other_word, self.author),
        ] {
            pages.push(format!("/changes.csv?{query}"));
            pages.push(format!("/changes.ndjson?{query}"));
        }
        for query in [
            String::new(),
            "limit=100&offset=2500".to_owned(),
            "resource=change".to_owned(),
            "resource=host&offset=100".to_owned(),
            "actor_id=__api_key__".to_owned(),
            format!("actor_id={owner}"),
            "actor_id=__api_key__&resource=service".to_owned(),
            format!("actor_id={owner}&resource=change"),
        ] {
            pages.push(format!("/api/activity?{query}"));
        }
        let since = self.since.replace(':', "%3A");
        for query in [
            String::new(),
            "range=1w".to_owned(),
            format!("resource=change&since={since}"),
            format!("resource=host&until={since}&before={}", self.change),
            "actor_id=__api_key__".to_owned(),
            "actor_id=__api_key__&resource=service".to_owned(),
            format!("actor_id=key%3A{key}"),
            format!("actor_id=key%3A{key}&action=deleted"),
            format!("actor_id={owner}"),
            format!("actor_id={owner}&resource=change&action=created"),
            format!("actor_id={owner}&action=revoked"),
            "action=created".to_owned(),
            "action=updated&resource=change".to_owned(),
            "action=role_changed".to_owned(),
            "action=deleted&resource=change".to_owned(),
        ] {
            let question = if query.is_empty() { "" } else { "?" };
            pages.push(format!("/activity{question}{query}"));
        }
        for extension in ["csv", "ndjson"] {
            pages.push(format!("/activity.{extension}?action=signed_in"));
            pages.push(format!("/activity.{extension}?range=1h&resource=member"));
        }
        pages
    }
}
