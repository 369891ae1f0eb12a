//! All pages and forms, read from the source, so that tests cover new ones.

use super::Resources;

const SOURCE: &str = include_str!("../../../changelog-server/src/dashboard/mod.rs");

/// The placeholder of an id in a path.
const ID: &str = "{id}";

/// A path, and its methods.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Such as `/changes/{id}/edit`.
    pub(super) path: String,
    pub(super) is_read: bool,
    pub(super) is_posted: bool,
}

/// Reads the list of pages.
pub(super) fn all() -> Vec<Route> {
    let (_, list) = SOURCE.split_once("vec![").expect("a list of pages");
    let (list, _) = list.split_once("];").expect("its end");
    let list: String = list.split_whitespace().collect();
    let endpoints = list.split(",at").filter(|text| !text.is_empty());
    let mut routes: Vec<Route> = endpoints.map(route).collect();
    // A stream, which does not end: freshness.rs tests it. JSON: names.rs tests it. XML:
    // feeds.rs tests it. Links of mails, without a session: mails.rs tests them. Public
    // keys: integrations.rs tests them. Public pages: reference.rs tests them. Sign-in by a
    // provider: it/sso tests it.
    let others = [
        "/events",
        "/names/",
        "/feeds/",
        "/unsubscribe/",
        "/.well-known/",
        "/api/docs",
        "/problems/",
        "/sso/",
    ];
    routes.retain(|route| !others.iter().any(|start| route.path.starts_with(start)));
    assert!(routes.len() >= 30, "too few: {routes:?}");
    routes
}

fn route(endpoint: &str) -> Route {
    let (_, path) = endpoint.split_once("(\"").expect("a path");
    let (path, _) = path.split_once('"').expect("the end of a path");
    let parts = path.split('/').map(|part| match part.strip_prefix(':') {
        Some(_) => ID,
        None => part,
    });
    let path = parts.collect::<Vec<_>>().join("/");
    let route = Route {
        path,
        is_read: endpoint.contains(").get("),
        is_posted: endpoint.contains(").post("),
    };
    assert!(route.is_read || route.is_posted, "neither: {endpoint}");
    route
}

impl Route {
    /// Returns whether the path has the id of a resource of an organization.
    pub(super) fn has_resource_id(&self) -> bool {
        self.path.contains(ID)
            && !self.path.starts_with("/assets/")
            && !self.path.starts_with("/invitations/")
    }

    /// Returns the path with the id of the resource.
    pub(super) fn of(&self, resources: &Resources) -> String {
        let known = [
            ("/changes/", &resources.change),
            ("/services/", &resources.service),
            ("/hosts/", &resources.host),
            ("/incidents/", &resources.incident),
            ("/settings/api-keys/", &resources.key),
            ("/settings/workloads/", &resources.workload),
            ("/settings/integrations/", &resources.connection),
            ("/settings/sources/", &resources.source),
            ("/settings/members/invitations/", &resources.invitation),
            ("/settings/members/", &resources.member),
            ("/invitations/", &resources.token),
            ("/views/", &resources.view),
            ("/notifications/", &resources.change),
            // Not the name of a file.
            ("/assets/", &resources.change),
        ];
        if !self.path.contains(ID) {
            return self.path.clone();
        }
        if let Some(path) = self.path.strip_suffix("/events/{id}") {
            let path = path.replace(ID, &resources.source);
            return format!("{path}/events/{}", resources.request);
        }
        let is_of = |(start, _): &&(&str, &String)| self.path.starts_with(start);
        let (_, id) = known
            .iter()
            .find(is_of)
            .unwrap_or_else(|| panic!("no resource for {}; add it here", self.path));
        self.path.replace(ID, id)
    }

    /// Returns the fields of the form of a path.
    pub(super) fn fields(&self) -> Vec<(&'static str, &'static str)> {
        match self.path.as_str() {
            "/changes" | "/changes/{id}" | "/incidents" | "/incidents/{id}" => {
                vec![("title", "Sent by a form")]
            }
            "/incidents/{id}/cause" => vec![("change_id", ""), ("none_of_these", "true")],
            "/services" | "/services/{id}" => vec![("name", "sent by a form")],
            "/hosts" | "/hosts/{id}" => vec![("hostname", "sent-by-a-form")],
            "/settings/api-keys" | "/settings/organization" | "/account" => {
                vec![("name", "Sent by a form")]
            }
            "/settings/organization/retention" => vec![("months", "12")],
            "/settings/workloads" | "/settings/workloads/{id}" => vec![
                ("name", "Sent by a form"),
                ("issuer", "https://issuer.invalid"),
                ("audience", "https://changes.example"),
                ("claims", "sub=shop"),
            ],
            "/settings/sign-in" => {
                vec![
                    ("issuer", "https://login.example.com"),
                    ("client_id", "log"),
                ]
            }
            "/settings/members/invite" => {
                vec![("email", "sent@example.org"), ("role", "viewer")]
            }
            "/settings/members/{id}/role" => vec![("role", "viewer")],
            "/account/password" => vec![
                ("current_password", "none of mine"),
                ("password", "another pear and 4711 plums"),
            ],
            "/sign-in" => vec![("email", "ada@example.com"), ("password", "none of mine")],
            "/setup" => vec![("token", "none"), ("organization", "Sent by a form")],
            "/invitations/{id}" => vec![("name", "Guest"), ("password", super::PASSWORD)],
            "/views" => vec![("name", "Sent by a form"), ("query", "risk_level=high")],
            "/services/{id}/subscription" => vec![("min_risk", "high")],
            "/settings/integrations" => vec![
                ("kind", "webhook"),
                ("name", "Sent by a form"),
                ("url", "https://hooks.example.com/sent"),
                ("events", "change.created"),
            ],
            "/settings/integrations/{id}" => {
                vec![("name", "Sent by a form"), ("events", "change.created")]
            }
            "/settings/sources" => vec![("kind", "generic"), ("name", "Sent by a form")],
            "/settings/sources/{id}" | "/settings/sources/{id}/preview" => {
                vec![
                    ("name", "Sent by a form"),
                    ("templates/title", "{{ title }}"),
                ]
            }
            "/settings/sources/{id}/replay" => {
                vec![("event", "00000000-0000-7000-8000-000000000000")]
            }
            "/settings/integrations/{id}/replay" => vec![("sequence", "1")],
            "/views/{id}" => vec![("name", "Sent by a form")],
            "/organization" => vec![("organization_id", "00000000-0000-7000-8000-000000000000")],
            "/changes/{id}/delete"
            | "/views/{id}/delete"
            | "/account/feed"
            | "/services/{id}/subscription/stop"
            | "/notifications/read"
            | "/notifications/{id}/read"
            | "/account/feed/revoke"
            | "/settings/api-keys/{id}/revoke"
            | "/settings/workloads/{id}/delete"
            | "/settings/members/invitations/{id}/withdraw"
            | "/settings/integrations/{id}/test"
            | "/settings/integrations/{id}/rotate"
            | "/settings/integrations/{id}/enable"
            | "/settings/integrations/{id}/disable"
            | "/settings/integrations/{id}/delete"
            | "/settings/integrations/{id}/replay-dead"
            | "/settings/sources/{id}/renew"
            | "/settings/sources/{id}/enable"
            | "/settings/sources/{id}/disable"
            | "/settings/sources/{id}/dismiss"
            | "/settings/sources/{id}/delete"
            | "/settings/sources/{id}/replay-set-aside"
            | "/settings/members/{id}/remove"
            | "/settings/members/{id}/erase"
            | "/settings/members/{id}/end-sessions"
            | "/settings/sign-in/remove"
            | "/settings/sign-in/seen"
            | "/settings/organization/export"
            | "/account/end-other-sessions"
            | "/sign-out" => vec![],
            other => panic!("no fields for {other}; add them here"),
        }
    }
}
