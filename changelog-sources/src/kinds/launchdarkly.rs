//! LaunchDarkly webhooks: <https://launchdarkly.com/docs/api/webhooks>.
//!
//! The body is an entry of the audit log. A flag or segment that serves something else than
//! before is a change; its name, its tags and the requests to approve it are none. The
//! values of variations and the members of targets are never read.

use serde_json::Value;

use super::Kind;
use super::actor::by_agent;
use crate::json::{digest_of, links, list, parse, phrase, required, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "x-ld-signature",
        prefix: "",
        hash: Hash::Sha256,
    }],
    request_id: |received| text(&parse(received.body).ok()?, "/_id"),
    ..Kind::new(read)
};

/// What actions do to a flag or segment, the most important first.
const VERBS: [(&str, &str); 17] = [
    ("deleteFlag", "Delete "),
    ("deleteSegment", "Delete "),
    ("createFlag", "Create "),
    ("cloneFlag", "Create "),
    ("createSegment", "Create "),
    ("updateFallthrough", "Change the default rule of "),
    ("updateOffVariation", "Change the off variation of "),
    ("updateFlagVariations", "Change the variations of "),
    ("updateFlagDefaultVariations", "Change the variations of "),
    ("updatePrerequisites", "Change the prerequisites of "),
    ("updateRules", "Change the rules of "),
    ("updateTargets", "Change the targets of "),
    ("updateUserTargets", "Change the targets of "),
    ("updateContextTargets", "Change the targets of "),
    ("updateIncluded", "Change the targets of "),
    ("updateExcluded", "Change the targets of "),
    ("copyFlagConfigTo", "Copy the settings of "),
];

/// What is derived from the text of an entry instead of its action.
const WORDS: [(&str, &str); 4] = [
    ("turned on", "Turn on "),
    ("turned off", "Turn off "),
    ("archived", "Archive "),
    ("restored", "Restore "),
];

/// The actions that change nothing of what a flag serves.
const WITHOUT_EFFECT: [&str; 10] = [
    "updateName",
    "updateDescription",
    "updateTags",
    "updateMaintainer",
    "updateTemporary",
    "updateFlagCustomProperties",
    "createFlagLink",
    "updateFlagLink",
    "deleteFlagLink",
    "manageFlagFollowers",
];

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let id = text(&body, "/_id").unwrap_or_else(|| digest_of(received.body));
    let kind = required(&body, "/kind", "the entry")?;
    if kind != "flag" && kind != "segment" {
        return Ok(Reading::ignored(format!(
            "an entry about a {kind} changes no flag"
        )));
    }
    let accesses = list(&body, "/accesses");
    let actions: Vec<String> = accesses
        .iter()
        .filter_map(|access| text(access, "/action"))
        .collect();
    if let Some(action) = actions.first()
        && !actions.iter().any(|action| has_effect(action))
    {
        return Ok(Reading::ignored(format!(
            "the action {action} changes nothing of what a {kind} serves"
        )));
    }
    let resources: Vec<String> = accesses
        .iter()
        .filter_map(|access| text(access, "/resource"))
        .collect();
    let name = segment(&resources, &kind).or_else(|| text(&body, "/name"));
    let name = name.ok_or_else(|| Unreadable(format!("the entry does not name its {kind}")))?;
    let environment = segment(&resources, "env");
    let verb = verb(&body, &actions);
    Ok(State {
        key: format!("entry/{id}"),
        // Templates have the time in another member.
        at: time(&body, "/date")
            .or_else(|| time(&body, "/timestamp/milliseconds"))
            .unwrap_or(received.at),
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: phrase([
                (verb, Some(&kind)),
                (" ", Some(&name)),
                (" in ", environment.as_deref()),
            ]),
            description: text(&body, "/comment"),
            // Everybody has a project of this name.
            services: segment(&resources, "proj")
                .filter(|project| project != "default")
                .into_iter()
                .collect(),
            places: environment.into_iter().collect(),
            links: links([(
                kind.as_str(),
                text(&body, "/_links/site/href")
                    .filter(|path| path.starts_with('/'))
                    .map(|path| format!("https://app.launchdarkly.com{path}")),
            )]),
            person: text(&body, "/member/email"),
            tags: vec!["flag".to_owned()],
            deletes: verb == "Delete ",
            ..by_agent(text(&body, "/token/name").or_else(|| text(&body, "/app/name")))
        },
    }
    .into())
}

fn has_effect(action: &str) -> bool {
    let is_request = action.ends_with("ApprovalRequest") && !action.starts_with("apply");
    let is_read = action.starts_with("view") || action.starts_with("get");
    !is_request && !is_read && !WITHOUT_EFFECT.contains(&action)
}

fn verb(body: &Value, actions: &[String]) -> &'static str {
    let mut verbs = VERBS.iter();
    let by_action = verbs.find(|(action, _)| actions.iter().any(|one| one == action));
    let said = text(body, "/titleVerb").or_else(|| text(body, "/title"));
    let said = said.unwrap_or_default();
    let by_words = WORDS.iter().find(|(words, _)| said.contains(words));
    // What is said is the whole of the entry, unless the flag itself comes or goes.
    let is_whole = by_action.is_some_and(|(_, verb)| ["Delete ", "Create "].contains(verb));
    let found = if is_whole {
        by_action
    } else {
        by_words.or(by_action)
    };
    found.map_or("Change ", |(_, verb)| verb)
}

/// Returns the value of a segment of resources such as
/// `proj/shop:env/production:flag/new-checkout;tag`, if it is the same in all of them.
fn segment(resources: &[String], name: &str) -> Option<String> {
    let value = |resource: &String| {
        let mut segments = resource.split(':').filter_map(|one| one.split_once('/'));
        let (_, value) = segments.find(|(kind, _)| *kind == name)?;
        let value = value.split(';').next()?;
        (!value.is_empty() && value != "*").then(|| value.to_owned())
    };
    let first = value(resources.first()?)?;
    resources
        .iter()
        .all(|resource| value(resource).as_ref() == Some(&first))
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA256;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        changes_in_any_order, id_of, ignored, is_proven, signature, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Launchdarkly;

    fn entry(action: &str, words: &str, id: &str) -> Value {
        json!({
            "_id": id, "date": 1_795_168_800_000_u64, "kind": "flag", "name": "The new checkout",
            "accesses": [{
                "action": action,
                "resource": "proj/shop:env/production:flag/new-checkout;beta",
            }],
            "titleVerb": words, "comment": "Ready for everyone",
            "description": "- Changed the value to `hunter2`",
            "currentVersion": { "variations": [{ "value": "hunter2" }] },
            "member": { "email": "ada@example.com" }, "token": { "name": "pipeline" },
            "_links": { "site": { "href": "/shop/production/features/new-checkout" } },
        })
    }

    #[test]
    fn a_flag_that_is_toggled_is_a_change() {
        let changes = changes_in_any_order(
            &KIND,
            &[],
            &[entry("updateOn", "turned on the flag", "e-1")],
        );
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["shop"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Turn on flag new-checkout in production",
                "description": "Ready for everyone",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z",
                "ended_at": "2026-11-20T10:00:00.000Z",
                "environment": "prod", "on_behalf_of": "ada@example.com",
                "agent": { "name": "pipeline" }, "tags": ["launchdarkly", "flag"],
                "links": [{
                    "label": "flag",
                    "url": "https://app.launchdarkly.com/shop/production/features/new-checkout",
                }],
            })
        );
    }

    #[test]
    fn every_entry_is_a_change_with_its_own_title() {
        let mut created = entry("createFlag", "created the flag", "e-3");
        created["accesses"] = json!(["production", "test"].map(|environment| json!({
            "action": "createFlag",
            "resource": format!("proj/shop:env/{environment}:flag/new-checkout"),
        })));
        let mut segment = entry("updateIncluded", "updated the segment", "e-4");
        segment["kind"] = json!("segment");
        segment["accesses"][0]["resource"] = json!("proj/shop:env/test:segment/testers");
        let changes = changes_in_any_order(
            &KIND,
            &[],
            &[
                entry("updateOn", "turned off the flag", "e-1"),
                entry("deleteFlag", "deleted the flag", "e-2"),
                created,
                segment,
                entry("updateFallthrough", "updated the flag", "e-5"),
                entry("somethingNew", "updated the flag", "e-6"),
            ],
        );
        let titles: Vec<_> = changes
            .iter()
            .map(|change| &change.fields["title"])
            .collect();
        assert_eq!(
            titles,
            [
                "Turn off flag new-checkout in production",
                "Delete flag new-checkout in production",
                "Create flag new-checkout",
                "Change the targets of segment testers in test",
                "Change the default rule of flag new-checkout in production",
                "Change flag new-checkout in production",
            ]
        );
        assert_eq!(changes[1].fields["risk_level"], "high");
    }

    #[test]
    fn other_entries_are_ignored_with_a_reason() {
        let mut member = entry("createMember", "invited", "e-1");
        member["kind"] = json!("member");
        for (body, reason) in [
            (member, "an entry about a member changes no flag"),
            (
                entry("updateTags", "", "e-1"),
                "the action updateTags changes nothing of what a flag serves",
            ),
            (
                entry("reviewApprovalRequest", "", "e-1"),
                "the action reviewApprovalRequest changes nothing of what a flag serves",
            ),
            (
                entry("viewFlag", "", "e-1"),
                "the action viewFlag changes nothing of what a flag serves",
            ),
        ] {
            assert_eq!(ignored(&KIND, &[], &body), [reason]);
        }
    }

    #[test]
    fn entries_without_an_id_are_known_by_their_body() {
        let mut one = entry("updateOn", "turned on the flag", "");
        one["_id"] = json!(null);
        let mut other = one.clone();
        other["titleVerb"] = json!("turned off the flag");
        assert_eq!(changes_in_any_order(&KIND, &[], &[one, other]).len(), 2);
    }

    #[test]
    fn the_signature_proves_the_origin_and_the_entry_has_an_id() {
        let signed = hex::encode(signature(HMAC_SHA256, "{}"));
        assert!(is_proven(&KIND, &[("X-LD-Signature", &signed)], "{}"));
        assert!(!is_proven(&KIND, &[("X-LD-Signature", &signed)], "[]"));
        let id = id_of(&KIND, &[], &entry("updateOn", "", "e-1"));
        assert_eq!(id.as_deref(), Some("e-1"));
    }

    #[test]
    fn garbage_is_withstood() {
        withstands_garbage(&KIND, &[], &entry("updateOn", "turned on the flag", "e-1"));
    }
}
