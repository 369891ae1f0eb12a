//! The forms of pages.

use std::time::Duration;

use changelog_tests::issuer::SigningKey;
use changelog_tests::{TestResponse, form, send, text};
use serde_json::json;
use tokio::time::sleep;

use super::fixture::Fixture;
use super::requests::RequestSender;
use crate::sso::{Begun, Provider, another_client};

impl<F: FnMut(&str)> RequestSender<'_, F> {
    /// Sends a form as the owner.
    async fn form(&mut self, path: &str, fields: &[(&str, &str)], status: u16) -> TestResponse {
        let request = form(self.browser.request("POST", path), fields);
        self.send("POST", path, None, request, status).await
    }

    /// Sends every form, so that each has an effect.
    pub(super) async fn send_forms(&mut self, fixture: &Fixture, round: usize) {
        let name = format!("by a form {round}");
        let title = [("title", name.as_str())];
        let answer = self.form("/changes", &title, 303).await;
        let change = answer.header("location").to_owned();
        self.form("/changes", &[("title", "")], 422).await;
        self.form(&change, &[("status", "in_progress")], 303).await;
        self.form(&change, &[("title", "")], 422).await;
        let page = self.browser.request("GET", &change);
        self.send("GET", &change, None, page, 200).await;
        self.form(&format!("{change}/delete"), &[], 303).await;
        self.form(&format!("{change}/delete"), &[], 404).await;
        // A change with every indexed field.
        let full = [
            ("title", name.as_str()),
            ("service_id", &fixture.service),
            ("service_ids", &fixture.other_service),
            ("host_id", &fixture.host),
            ("environment", "staging"),
            ("tags", &fixture.tag),
            ("scheduled_for", "2030-01-01T00:00"),
        ];
        let answer = self.form("/changes", &full, 303).await;
        let full = answer.header("location").to_owned();
        // It moves, with and without further services.
        let start = [("status", "completed"), ("service_ids", "")];
        self.form(&full, &start, 303).await;
        let end = [
            ("status", "rolled_back"),
            ("reason", "A reason"),
            ("started_at", "2026-01-01T00:00"),
            ("service_ids", &fixture.other_service),
        ];
        self.form(&full, &end, 303).await;
        let edit = format!("{full}/edit");
        let page = self.browser.request("GET", &edit);
        self.send("GET", &edit, None, page, 200).await;
        self.form(&full, &[("service_ids", "nothing")], 422).await;
        self.form(&format!("{full}/delete"), &[], 303).await;
        self.send_forms_about_incidents(fixture, &name).await;
        self.send_forms_about_views(&name).await;
        for (path, field) in [("/services", "name"), ("/hosts", "hostname")] {
            let answer = self.form(path, &[(field, &name)], 303).await;
            self.form(path, &[(field, &name)], 422).await;
            let one = answer.header("location").to_owned();
            self.form(&one, &[("description", &name)], 303).await;
            for query in ["service", "host"] {
                let path = format!("/changes?{query}=by+a+form+{round}");
                let request = self.browser.request("GET", &path);
                send(request).await;
            }
        }
        self.form("/settings/organization", &[("name", &name)], 303)
            .await;
        self.form("/account", &[("name", &name)], 303).await;
        self.send_forms_about_keys(&name).await;
        self.send_forms_about_people(round).await;
        self.send_forms_about_subscriptions(fixture, round).await;
        self.send_forms_about_connections(fixture, &name).await;
        self.send_forms_about_sources(&name).await;
        self.send_forms_about_the_provider().await;
        self.form("/account/end-other-sessions", &[], 303).await;
        let page = self.form("/account/feed", &[], 200).await.text;
        let (_, rest) = page.split_once("/feeds/").expect("an address");
        let (feed, _) = rest.split_once('<').expect("an element");
        for (query, status) in [("", 200), ("&min_risk=medium", 200), ("0", 404)] {
            let request = self
                .browser
                .request("GET", &format!("/feeds/{feed}{query}"));
            self.send("GET", "/feeds/changes.atom", None, request, status)
                .await;
        }
        self.form("/account/feed/revoke", &[], 303).await;
    }

    /// Sets how long records are kept, and has a run look for older ones: there are none.
    pub(super) async fn begin_retention_run(&mut self) {
        let path = "/settings/organization/retention";
        self.form(path, &[("months", "0")], 422).await;
        for (months, confirmed, status) in [
            ("239", "", 200),
            ("239", "1", 303),
            ("", "", 303),
            ("240", "1", 303),
        ] {
            let fields = [("months", months), ("confirmed", confirmed)];
            self.form(path, &fields, status).await;
        }
        let is_due = "UPDATE retentions SET due_at = 0, cutoff = 0 WHERE organization_id = $1";
        assert_eq!(self.app.update_own(is_due).await, 1);
    }

    /// Waits until that run has ended.
    pub(super) async fn end_retention_run(&self) {
        let has_ended = "UPDATE retentions SET months = months \
            WHERE organization_id = $1 AND due_at > 0 AND cutoff IS NULL";
        // The machine may be so busy that several steps fail: then another server may go on, at once.
        let is_due = "UPDATE retentions SET due_at = 0 \
            WHERE organization_id = $1 AND cutoff IS NOT NULL";
        for waited in 1.. {
            if self.app.update_own(has_ended).await > 0 {
                return;
            }
            sleep(Duration::from_millis(200)).await;
            if waited % 150 == 0 {
                self.app.update_own(is_due).await;
            }
        }
    }

    /// Ends the erasure of a member: to its end it would read everything.
    pub(super) async fn end_erasure(&self) {
        let end = "UPDATE erasures SET due_at = NULL WHERE organization_id = $1";
        self.app.update_own(end).await;
    }

    /// Opens an incident, and does everything with it.
    async fn send_forms_about_incidents(&mut self, fixture: &Fixture, name: &str) {
        let fields = [("title", name), ("service_id", &fixture.service)];
        let answer = self.form("/incidents", &fields, 303).await;
        self.form("/incidents", &[("title", "")], 422).await;
        let incident = answer.header("location").to_owned();
        let cause = format!("{incident}/cause");
        self.form(&cause, &[("change_id", &fixture.change)], 303)
            .await;
        for page in [&incident, &format!("/changes/{}", fixture.change)] {
            let request = self.browser.request("GET", page);
            self.send("GET", page, None, request, 200).await;
        }
        self.form(&cause, &[("change_id", "none")], 422).await;
        let none = [("change_id", ""), ("none_of_these", "true")];
        self.form(&cause, &none, 303).await;
        self.form(&incident, &[("status", "resolved")], 303).await;
        self.form(&incident, &[("title", "")], 422).await;
    }

    /// Starts, changes and stops a subscription, and reads notifications.
    async fn send_forms_about_subscriptions(&mut self, fixture: &Fixture, round: usize) {
        let path = format!("/services/{}/subscription", fixture.service);
        for risk in ["low", "high"] {
            self.form(&path, &[("min_risk", risk)], 303).await;
        }
        for page in [
            format!("/services/{}", fixture.service),
            "/account".to_owned(),
        ] {
            let request = self.browser.request("GET", &page);
            self.send("GET", &page, None, request, 200).await;
        }
        let path = format!("{path}/stop");
        self.form(&path, &[], 303).await;
        self.form(&path, &[], 404).await;
        self.form("/notifications/read", &[("until", "1")], 303)
            .await;
        let path = format!("/notifications/{}/read", fixture.change);
        self.form(&path, &[], 404).await;
        let path = format!("/unsubscribe/{round}");
        let request = self.app.anonymous().request("GET", &path);
        self.send("GET", &path, None, request, 404).await;
    }

    /// Makes a source, and does everything with it.
    async fn send_forms_about_sources(&mut self, name: &str) {
        let path = "/settings/sources";
        let fields = [("kind", "generic"), ("name", name)];
        let page = self.form(path, &fields, 200).await.text;
        self.form(path, &fields, 422).await;
        let id = between(&page, "action=\"/settings/sources/", "/");
        let url = between(&page, "id=\"new-address\">", "<");
        let posted_to = url.replace(&self.app.url(), "");
        let anonymous = self.app.anonymous();
        for body in [json!({ "title": name }), json!({ "none": 1 })] {
            anonymous.post(&posted_to, body).await.is(202);
        }
        let source = self.app.source_at(&id, &posted_to, None);
        let events = source.events().await;
        let event = text(&events[0]["id"]);
        let path = format!("{path}/{id}");
        for page in [
            path.clone(),
            format!("{path}?before={event}"),
            format!("{path}/events/{event}"),
        ] {
            let request = self.browser.request("GET", &page);
            self.send("GET", &page, None, request, 200).await;
        }
        self.form(&path, &fields[1..], 303).await;
        for (action, status) in [
            ("renew", 200),
            ("disable", 303),
            ("enable", 303),
            ("dismiss", 303),
            ("replay-set-aside", 303),
        ] {
            self.form(&format!("{path}/{action}"), &[], status).await;
        }
        self.form(&format!("{path}/preview"), &fields[1..], 200)
            .await;
        self.form(&format!("{path}/replay"), &[("event", &event)], 303)
            .await;
        self.form(&format!("{path}/delete"), &[], 303).await;
    }

    /// Connects a provider, and signs people in by it and out.
    async fn send_forms_about_the_provider(&mut self) {
        let key = SigningKey::p256("k1");
        let provider = Provider::start(&key).await;
        let ours = &self.app.organization;
        let flags = ["--default-role", "member", "--group", "ops=admin"];
        provider.connect(self.app, ours, &flags);
        let path = "/settings/sign-in";
        self.form(path, &[("issuer", "no URL")], 422).await;
        self.form(&format!("{path}/seen"), &[], 303).await;
        let request = self.browser.request("GET", path);
        self.send("GET", path, None, request, 200).await;
        let start = format!("/sso/{}", ours.id);
        for (email, group, status) in [
            ("cleo@example.org", "ops", 303),
            ("cleo@example.org", "dev", 303),
            (&ours.email, "ops", 200),
        ] {
            let request = another_client(self.app).request("GET", &start);
            self.send("GET", &start, None, request, 303).await;
            let begun = Begun::begin(self.app, ours).await;
            let mut claims = provider.claims(self.app, &begun, email);
            claims["email"] = json!(email);
            claims["groups"] = json!([group]);
            provider.token(&key.sign(&claims));
            let state = begun.parameter("state");
            let callback = format!("/sso/callback?code=c0de&state={state}");
            let request = another_client(self.app).request("GET", &callback);
            let request = request.header("cookie", begun.cookie());
            let answer = self
                .send("GET", "/sso/callback", None, request, status)
                .await;
            if status == 200 {
                let password = [("password", ours.password.as_str())];
                let request = another_client(self.app).request("POST", "/sso/confirm");
                let request = form(request.header("cookie", answer.cookie()), &password);
                self.send("POST", "/sso/confirm", None, request, 303).await;
            } else {
                let page = self.app.anonymous().request("GET", "/account");
                let page = page.header("cookie", answer.cookie());
                self.send("GET", "/account", None, page, 200).await;
                let end = self.app.anonymous();
                let end = end.request("POST", "/account/end-other-sessions");
                let end = end.header("cookie", answer.cookie());
                self.send("POST", "/account/end-other-sessions", None, end, 303)
                    .await;
            }
        }
        let path = format!("/sso/backchannel-logout/{}", ours.id);
        for (id, subject) in [("1", json!("cleo@example.org")), ("2", json!(null))] {
            let claims = provider.logout_claims(self.app, id, &subject);
            let token = key.sign(&claims);
            let request = self.app.anonymous().request("POST", &path);
            let request = form(request, &[("logout_token", token.as_str())]);
            self.send("POST", &path, None, request, 200).await;
        }
        let request = self.browser.request("GET", "/settings/members");
        let page = send(request).await.text;
        let (_, row) = page.split_once("cleo@example.org").expect("a row of her");
        let path = format!(
            "/settings/members/{}",
            between(row, "/settings/members/", "/")
        );
        self.form(&format!("{path}/end-sessions"), &[], 303).await;
        self.form(&format!("{path}/erase"), &[], 303).await;
        self.form("/settings/sign-in/remove", &[], 303).await;
    }

    /// Connects a receiver at a name that does not exist, and does everything with it.
    async fn send_forms_about_connections(&mut self, fixture: &Fixture, name: &str) {
        let path = "/settings/integrations";
        let fields = [
            ("kind", "webhook"),
            ("name", name),
            ("url", "https://receiver.invalid/"),
            ("events", "change.created"),
            ("service_ids", &fixture.service),
        ];
        let page = self.form(path, &fields, 200).await.text;
        self.form(path, &fields, 422).await;
        let id = between(&page, "action=\"/settings/integrations/", "/");
        let path = format!("{path}/{id}");
        for query in ["", "?failed=1", "?before=9"] {
            let page = format!("{path}{query}");
            let request = self.browser.request("GET", &page);
            self.send("GET", &page, None, request, 200).await;
        }
        self.form(&path, &fields[1..], 303).await;
        for (action, status) in [
            ("test", 200),
            ("rotate", 200),
            ("disable", 303),
            ("enable", 303),
            ("replay-dead", 303),
        ] {
            self.form(&format!("{path}/{action}"), &[], status).await;
        }
        let replay = format!("{path}/replay");
        self.form(&replay, &[("sequence", "1")], 409).await;
        for (id, status) in [(id.as_str(), 200), (&fixture.change, 404)] {
            let path = format!("/.well-known/changelog-webhook-keys/{id}");
            let request = self.app.anonymous().request("GET", &path);
            self.send("GET", "/.well-known/", None, request, status)
                .await;
        }
        self.form(&format!("{path}/delete"), &[], 303).await;
        self.form(&format!("{path}/delete"), &[], 404).await;
    }

    async fn send_forms_about_views(&mut self, name: &str) {
        for shared in [None, Some(("shared", "1"))] {
            let with = |fields: &[(&'static str, &str)]| {
                let fields = fields
                    .iter()
                    .map(|(field, value)| (*field, (*value).to_owned()));
                let shared = shared.map(|(field, value)| (field, value.to_owned()));
                fields.chain(shared).collect::<Vec<_>>()
            };
            for (action, fields, status) in [
                (
                    "",
                    with(&[("name", name), ("query", "risk_level=high")]),
                    303,
                ),
                (
                    "",
                    with(&[("name", name), ("query", "risk_level=high")]),
                    422,
                ),
                ("", with(&[("name", "other"), ("query", "range=4h")]), 303),
                ("/ID", with(&[("name", "renamed")]), 303),
                ("/ID/delete", with(&[]), 303),
                ("/ID/delete", with(&[]), 303),
            ] {
                let request = self.browser.request("GET", "/views");
                let page = self.send("GET", "/views", None, request, 200).await;
                let path = match action {
                    "" => "/views".to_owned(),
                    action => {
                        let id = between(&page.text, "action=\"/views/", "\"");
                        format!("/views{}", action.replace("ID", &id))
                    }
                };
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(field, value)| (*field, value.as_str()))
                    .collect();
                self.form(&path, &fields, status).await;
            }
        }
    }

    async fn send_forms_about_keys(&mut self, name: &str) {
        let name = format!("key {name}");
        let path = "/settings/api-keys";
        self.form(path, &[("name", &name)], 200).await;
        let request = self.browser.request("GET", path);
        let page = self.send("GET", path, None, request, 200).await;
        let (_, row) = page
            .text
            .split_once(&format!(">{name}<"))
            .expect("the new one");
        let path = between(row, "/settings/api-keys/", "/");
        let path = format!("/settings/api-keys/{path}/revoke");
        self.form(&path, &[], 303).await;
        let fields = [
            ("name", name.as_str()),
            ("issuer", "https://issuer.invalid"),
            ("audience", "https://changes.example"),
            ("claims", "repository=acme/shop"),
        ];
        let page = self.form("/settings/workloads", &fields, 200).await.text;
        let (_, row) = page.split_once(&format!(">{name}<")).expect("the new one");
        let id = between(row, "/settings/workloads/", "/");
        let path = format!("/settings/workloads/{id}");
        let edit = format!("{path}/edit");
        let request = self.browser.request("GET", &edit);
        self.send("GET", &edit, None, request, 200).await;
        let narrowed = ("claims", "repository=acme/shop\nenvironment=production");
        let fields = [&fields[..3], &[narrowed]].concat();
        self.form(&path, &fields, 303).await;
        let path = format!("/settings/workloads/{id}/delete");
        self.form(&path, &[], 303).await;
    }

    /// Invites, withdraws, joins, changes the role, switches the organization, and
    /// removes.
    async fn send_forms_about_people(&mut self, round: usize) {
        let anonymous = self.app.anonymous();
        let email = format!("guest-{round}@example.org");
        let invitation = [("email", email.as_str()), ("role", "member")];
        let invite = "/settings/members/invite";
        // After a burst of thirty, invitations are limited to one a minute.
        if round < 5 {
            let page = self.form(invite, &invitation, 200).await.text;
            let start = "/settings/members/invitations/";
            let path = format!("{start}{}/withdraw", between(&page, start, "/"));
            self.form(&path, &[], 303).await;
        }
        let page = self.form(invite, &invitation, 200).await.text;
        let link = between(&page, "id=\"invitation-link\">", "<");
        let path = format!("/invitations/{}", link.rsplit_once('/').expect("a token").1);
        let request = anonymous.request("GET", &path);
        self.send("GET", &path, None, request, 200).await;
        let fields = [("name", "Guest"), ("password", "a pear and 4711 plums")];
        let request = form(anonymous.request("POST", &path), &fields);
        let answer = self.send("POST", &path, None, request, 303).await;
        let cookie = answer.cookie().to_owned();
        let request = anonymous.request("GET", &path);
        self.send("GET", &path, None, request, 404).await;
        let here = self.app.organization.id.as_str();
        for (path, fields) in [
            ("/organization", vec![("organization_id", here)]),
            (
                "/account/password",
                vec![
                    ("current_password", "a pear and 4711 plums"),
                    ("password", "another pear and 4711 plums"),
                ],
            ),
        ] {
            let request = anonymous.request("POST", path).header("cookie", &cookie);
            self.send("POST", path, None, form(request, &fields), 303)
                .await;
        }
        let request = self.browser.request("GET", "/settings/members");
        let page = self
            .send("GET", "/settings/members", None, request, 200)
            .await;
        let (_, row) = page.text.split_once(&email).expect("a row of them");
        let guest = between(row, "/settings/members/", "/");
        let of_guest = |what: &str| format!("/settings/members/{guest}/{what}");
        self.form(&of_guest("role"), &[("role", "owner")], 303)
            .await;
        self.form(&of_guest("role"), &[("role", "viewer")], 303)
            .await;
        self.form(&of_guest("remove"), &[], 303).await;
        let me = self.app.organization.owner_id.clone();
        self.form(&format!("/settings/members/{me}/remove"), &[], 409)
            .await;
    }
}

/// Returns the text between two strings.
fn between(text: &str, before: &str, after: &str) -> String {
    let (_, rest) = text.split_once(before).expect("the text before");
    let (found, _) = rest.split_once(after).expect("the text after");
    found.to_owned()
}
