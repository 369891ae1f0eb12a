//! What made a change: people, agents, pipelines and sources, as pages show it and lists filter by it.

use serde_json::{Value, json};

use super::between;
use super::downloads::rows;
use changelog_tests::{TestApp, assert_contains, on_one, text};

on_one!(
    pages_say_who_acted_for_whom,
    changes_are_filtered_by_what_made_them,
    what_made_a_change_is_linked_saved_and_sent,
);

/// Returns the address of the link with a given text.
fn address_of<'p>(page: &'p str, text: &str) -> &'p str {
    let (before, _) = page
        .split_once(&format!(">{text}</a>"))
        .unwrap_or_else(|| panic!("no link {text}: {page}"));
    let (_, link) = before.rsplit_once("href=\"").expect("an address");
    link.split('"').next().unwrap_or_default()
}

const CONSOLE: &str = "Run instances (ec2) by ada in the console";

const BY_AGENT: &str = "Run instances (ec2) by ada via Terraform";

/// Records changes that agents, people and pipelines made, and some by hand. Returns the id of
/// the source of two of them.
async fn record_in_every_way(app: &TestApp) -> String {
    let key = app.key();
    let source = app.source("cloudtrail", "AWS_prod", None);
    let call = |id: &str, agent: &str| {
        json!({
            "eventVersion": "1.08", "eventID": id, "eventName": "RunInstances",
            "readOnly": false, "eventSource": "ec2.amazonaws.com",
            "eventTime": "2026-01-20T10:00:00Z", "userAgent": agent,
            "userIdentity": { "type": "IAMUser", "userName": "ada" },
        })
    };
    source
        .send(&call("1", "console.amazonaws.com"))
        .await
        .is(202);
    let terraform = "APN/1.0 HashiCorp/1.0 Terraform/1.9.8";
    source.send(&call("2", terraform)).await.is(202);
    source.outcomes().await;
    let tags = json!(["a", "b", "c", "d", "by-hand"]);
    let typed = json!({ "title": "Typed", "tags": tags, "status": "completed" });
    key.create("/api/changes", typed).await;
    key.completed_change("Deployed").await;
    let owner = app.browser().await;
    owner
        .submit("/changes", &[("title", "Written"), ("risk_level", "low")])
        .await;
    source.id.clone()
}

/// Records a change of an agent alone, one that a person directed, and one for a person.
async fn record_by_agents(app: &TestApp, alone: &str) {
    let directed = json!({ "name": "claude-code", "mode": "interactive" });
    for (title, agent, person) in [
        (alone, json!({ "name": "bot <b>" }), Value::Null),
        ("Directed", directed, Value::Null),
        (
            "For her",
            json!({ "name": "claude-code" }),
            json!("ada <i>"),
        ),
    ] {
        let body = json!({ "title": title, "agent": agent, "on_behalf_of": person,
            "status": "completed" });
        app.key().create("/api/changes", body).await;
    }
}

async fn pages_say_who_acted_for_whom(app: TestApp) {
    record_by_agents(&app, "By itself").await;
    let owner = app.browser().await;
    let list = owner.page("/changes?agent=claude-code&text=her").await;
    assert_contains(
        &list,
        "<bdi>claude-code for ada &#60;i&#62;</bdi> <span>claimed</span>",
    );
    assert_contains(&list, "made by claude-code for ada &#60;i&#62; (claimed)");
    let log = owner.page("/activity").await;
    assert_contains(&log, "by claude-code for ada &#60;i&#62; (claimed)");
    assert_contains(&log, "by bot &#60;b&#62; (claimed)");
    let suspects = owner.page("/around").await;
    assert_contains(&suspects, "claude-code for ada &#60;i&#62; (claimed)</bdi>");
    for (query, expected) in [("agent=claude-code", 0), ("by=unattended", 1)] {
        let list = owner.page(&format!("/changes?{query}")).await;
        let address = between(&list, "<a class=\"title\" href=\"", "\"");
        let page = owner.page(address).await;
        let link = "<a href=\"/changes?by=unattended\">without a person</a>";
        assert_eq!(page.matches(link).count(), expected, "{query}");
    }
}

async fn changes_are_filtered_by_what_made_them(app: TestApp) {
    let id = &record_in_every_way(&app).await;
    let (console, by_agent, alone) = (CONSOLE, BY_AGENT, "By itself");
    record_by_agents(&app, alone).await;
    let owner = app.browser().await;
    for (query, expected, chips) in [
        ("by=hand", vec!["Typed", console], vec!["Made by hand"]),
        (
            "by=agent%2Cpipeline",
            vec!["For her", "Directed", alone, "Deployed", by_agent],
            vec!["Made by agent", "Made by pipeline"],
        ),
        (
            "by=unattended",
            vec![alone],
            vec!["Made by agent without a person"],
        ),
        ("by=person", vec!["Written"], vec!["Made by person"]),
        ("agent=terraform", vec![by_agent], vec!["Agent terraform"]),
        (
            &format!("source={id}"),
            vec![by_agent, console],
            vec!["Source AWS_prod"],
        ),
        (
            &format!("by=hand&source={id}&tag=cloudtrail"),
            vec![console],
            vec!["Made by hand", "Source AWS_prod", "Tag cloudtrail"],
        ),
    ] {
        let page = owner.page(&format!("/changes?{query}")).await;
        let main = between(&page, "<main", "</main>");
        let mut titles: Vec<&str> = main
            .split("<a class=\"title\"")
            .skip(1)
            .map(|row| between(row, "dir=\"auto\">", "</a>"))
            .collect();
        // Those of the source are of one millisecond.
        titles.sort_unstable_by_key(|title| expected.iter().position(|one| one == title));
        assert_eq!(titles, expected, "{query}");
        for chip in &chips {
            assert_contains(main, format!("aria-label=\"Remove filter: {chip}\""));
        }
        assert_eq!(
            main.matches("Remove filter").count(),
            chips.len(),
            "{query}"
        );
        // Without a script the form keeps what it shows.
        for word in ["agent", "person", "pipeline", "hand"] {
            let is_chosen = chips.contains(&&*format!("Made by {word}"));
            let checked = if is_chosen { " checked" } else { "" };
            let field = format!("name=\"by\" value=\"{word}\"{checked}>");
            assert_contains(main, &field);
        }
    }
    // As the form sends them: the name becomes the id, which stays.
    for (typed, canonical) in [
        (
            "by=hand&by=agent&source=&agent=",
            "by=hand%2Cagent".to_owned(),
        ),
        (
            "source=aws_PROD&agent=Terraform",
            format!("source={id}&agent=Terraform"),
        ),
        ("agent=terraform&by=", "agent=terraform".to_owned()),
    ] {
        let answer = owner.get(&format!("/changes?{typed}")).await;
        answer.is(303);
        assert_eq!(answer.header("location"), format!("/changes?{canonical}"));
    }
    let page = owner
        .page(&format!("/changes?source={id}&agent=Terraform"))
        .await;
    assert_contains(&page, "<span id=\"by-chosen\">AWS_prod, Terraform</span>");
    assert_contains(&page, "name=\"source\" value=\"AWS_prod\"");
}

async fn what_made_a_change_is_linked_saved_and_sent(app: TestApp) {
    let id = &record_in_every_way(&app).await;
    let (console, by_agent) = (CONSOLE, BY_AGENT);
    let (key, owner) = (app.key(), app.browser().await);
    // The page of a change has links to its like.
    let all = key.body("/api/changes").await;
    let mut pages = Vec::new();
    for change in all["data"].as_array().expect("a list") {
        let path = format!("/changes/{}", text(&change["id"]));
        pages.push((text(&change["title"]), owner.page(&path).await));
    }
    let of = |title: &str| {
        let page = pages.iter().find(|(of, _)| of == title);
        let page = &page.expect("a change").1;
        between(page, "<dl class=\"facts\">", "</dl>")
    };
    assert_eq!(
        address_of(of(console), "<bdi>AWS_prod</bdi>"),
        format!("/changes?source={id}")
    );
    assert_eq!(
        address_of(of(console), "<bdi>by-hand</bdi>"),
        "/changes?by=hand"
    );
    assert_eq!(
        address_of(of(by_agent), "<bdi>Terraform</bdi>"),
        "/changes?agent=Terraform"
    );
    // A row has room for three tags; by-hand is one of them.
    let page = owner.page("/changes?by=hand").await;
    let row = between(&page, ">Typed</a>", "</li>");
    assert_contains(row, "class=\"tag by-hand\" href=\"/changes?by=hand\"");
    assert_contains(row, "title=\"c, d\">+2<");

    // Views, downloads and feeds have the same filters.
    let query = format!("by=hand&source={id}");
    let fields = [("name", "By hand in AWS"), ("query", &*query)];
    let saved = owner.post_form("/views", &fields).await;
    assert_eq!(saved.header("location"), format!("/changes?{query}"));
    let page = owner.page(&format!("/changes?{query}")).await;
    assert_contains(&page, "aria-current=\"true\">By hand in AWS</a>");
    let csv = owner.get(&format!("/changes.csv?{query}")).await;
    assert_eq!(rows(&csv.text).len(), 2, "{}", csv.text);
    let disposition = csv.header("content-disposition");
    assert_contains(disposition, "changes-made-by-hand-aws-prod-");
    let page = owner.post_form("/account/feed", &[]).await.text;
    let feed = between(&page, "id=\"new-feed\">", "<").replace("&#38;", "&");
    let feed = feed
        .strip_prefix(&app.url())
        .expect("an address")
        .to_owned();
    let feed = app.anonymous().get(&format!("{feed}&{query}")).await;
    feed.is(200);
    assert_eq!(feed.text.matches("<entry>").count(), 1, "{}", feed.text);
    assert_contains(&feed.text, console);
}
