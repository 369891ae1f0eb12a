//! Checks every page, light and dark, wide and narrow: errors of the browser, and
//! accessibility.
//!
//! Pages look the same on both databases, so these tests use one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::subscriptions::{subscribe, wait_for_notifications};
use super::{Resources, routes, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{Server, TestApp, in_browser, installed, programs};

in_browser!(
    every_page_passes_the_checks,
    form_responses_pass_the_checks,
    the_checks_find_faults,
    the_bar_fits_every_width,
    long_names_fit_every_page,
    descriptions_do_not_look_like_links,
);

/// Our own checks, in every run.
const CHECKS: &str = include_str!("checks.js");
/// Returns how much wider the page is than the window, in pixels.
const WIDER: &str = "return document.scrollingElement.scrollWidth - innerWidth";
/// The standard checks, if npm can fetch them.
const AXE: &str = "axe-core@4.14.1";

/// The color schemes and widths: a desktop, and the narrowest width at which nothing may
/// scroll sideways (WCAG 1.4.10).
const LOOKS: [(&str, u32); 2] = [("light", 1280), ("dark", 320)];

/// Checks a page with a color scheme and width, and returns the problems.
async fn check_page(browser: &Chromium, scheme: &str, width: u32) -> Vec<String> {
    browser.set_color_scheme(scheme).await;
    browser.set_width(width).await;
    let mut problems: Vec<String> = browser
        .console()
        .await
        .into_iter()
        // The browser reports the status of error pages.
        .filter(|said| !said.contains("the server responded with a status of"))
        .collect();
    let is_dark = browser.script("return matchMedia('(prefers-color-scheme: dark)').matches");
    assert_eq!(is_dark.await, scheme == "dark");
    let found = browser.script(CHECKS).await;
    problems.extend(texts(&found));
    let wider = browser.script(WIDER).await;
    if wider.as_f64().is_some_and(|wider| wider > 0.0) {
        problems.push(format!("{wider} pixels wider than the window"));
    }
    if let Some(axe) = axe() {
        problems.extend(run_axe(browser, axe).await);
    }
    problems
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|text| text.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Runs axe on the page, and returns the serious problems.
async fn run_axe(browser: &Chromium, axe: &str) -> Vec<String> {
    browser.script(axe).await;
    let script = "const done = arguments[0];
        axe.run(document, { preload: false }).then(({ violations }) => done(violations
            .filter(({ impact }) => impact === 'serious' || impact === 'critical')
            .flatMap(({ id, nodes }) => nodes.map((node) => `axe ${id}: ${node.html} ${node.any.concat(node.all, node.none).map((one) => one.message).join('; ')}`))),
            (error) => done([`axe fails: ${error}`]))";
    let found = browser.tab.execute_async(script, vec![]).await;
    texts(&found.expect("the result of axe"))
}

/// Returns the source of axe-core, if npm can fetch it.
fn axe() -> Option<&'static str> {
    static SOURCE: OnceLock<Option<String>> = OnceLock::new();
    SOURCE.get_or_init(fetch_axe).as_deref()
}

fn fetch_axe() -> Option<String> {
    let folder = programs::folder().parent()?.join("axe");
    let found = installed::in_path("npm").and_then(|npm| unpack_axe(&npm, &folder));
    if found.is_none() {
        installed::missing("axe", "npm with axe-core");
    }
    found
}

fn unpack_axe(npm: &Path, folder: &Path) -> Option<String> {
    std::fs::create_dir_all(folder).ok()?;
    let archive = folder.join("axe-core-4.14.1.tgz");
    if !archive.is_file() {
        let mut command = Command::new(npm);
        command.args(["pack", AXE, "--silent"]).current_dir(folder);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        status.ok().filter(std::process::ExitStatus::success)?;
    }
    let mut command = Command::new("tar");
    let file = command
        .args(["-xzOf"])
        .arg(archive)
        .arg("package/axe.min.js");
    let output = file.output().ok()?;
    String::from_utf8(output.stdout)
        .ok()
        .filter(|source| source.contains("axe"))
}

/// Checks a page in all looks.
async fn check_in_all_looks(browser: &Chromium, name: &str, problems: &mut Vec<String>) {
    browser.wait_for("main h1").await;
    for (scheme, width) in LOOKS {
        for problem in check_page(browser, scheme, width).await {
            problems.push(format!("{name}, {scheme}, {width} wide: {problem}"));
        }
    }
    browser.set_width(1280).await;
}

#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{}:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

async fn every_page_passes_the_checks(app: TestApp, browser: Chromium) {
    let resources = Resources::of(&app, &app.organization).await;
    fill(&app, &resources).await;
    let mut problems = Vec::new();
    browser.open(&app.at("/sign-in")).await;
    check_in_all_looks(&browser, "/sign-in", &mut problems).await;
    let invitation = format!("{}/invitations/{}", app.url(), resources.token);
    browser.open(&invitation).await;
    check_in_all_looks(&browser, "/invitations/{id}", &mut problems).await;
    browser.open(&app.at("/api/docs")).await;
    check_in_all_looks(&browser, "/api/docs, signed out", &mut problems).await;
    sign_in(&browser, &app, &app.organization).await;
    let mut seen = 0;
    for route in routes::all().iter().filter(|route| route.is_read) {
        let is_page = !["/assets/", "/changes.", "/activity.", "/invitations/"]
            .iter()
            .any(|start| route.path.starts_with(start));
        let leads_on = ["/settings", "/sign-in", "/setup"].contains(&route.path.as_str());
        if !is_page || leads_on {
            continue;
        }
        browser
            .open(&format!("{}{}", app.url(), route.of(&resources)))
            .await;
        check_in_all_looks(&browser, &route.path, &mut problems).await;
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} were seen");
    for path in [
        "/around",
        "/changes?q=nothing+is+called+so&service=nobody%27s",
        "/changes?tag=prod",
        "/incidents?status=nonsense&service=nobody%27s",
        "/activity?range=nonsense",
        "/settings/integrations/new?kind=slack",
        "/settings/integrations/new?kind=teams",
        "/settings/integrations/new?kind=grafana",
        "/settings/integrations/new?kind=pagerduty",
        "/settings/integrations/new?kind=webhook",
        "/settings/sources/new?kind=github",
        "/settings/sources/new?kind=generic",
        "/nothing-here",
        "/setup",
        "/changes/nonsense",
        "/account?done=name",
        "/api/docs",
        "/problems/validation_failed",
        "/problems/nonsense",
    ] {
        browser.open(&format!("{}{path}", app.url())).await;
        check_in_all_looks(&browser, path, &mut problems).await;
    }
    assert_none(&problems);
}

/// Creates changes that fill the pages.
async fn fill(app: &TestApp, resources: &Resources) {
    let key = app.key();
    let mut changes = Vec::new();
    for (number, risk) in ["low", "medium", "high"]
        .iter()
        .cycle()
        .take(45)
        .enumerate()
    {
        let statuses = ["planned", "in_progress", "completed", "rolled_back"];
        changes.push(json!({
            "title": format!("Change number {number} of a title that is long enough to wrap on a telephone"),
            "risk_level": risk,
            "status": statuses[number % 4],
            "service_id": resources.service,
            "host_id": resources.host,
            "tags": ["prod", "a-tag-that-is-quite-long-and-has-no-space-at-all-in-it"],
            "scheduled_for": "2030-01-01T00:00:00Z",
        }));
    }
    // A word that does not fit on any line.
    let word = "W".repeat(250);
    changes.push(json!({ "title": word, "service_id": resources.service, "tags": [] }));
    let mark = json!({ "change_id": resources.change });
    let cause = format!("/api/incidents/{}/cause", resources.incident);
    key.put(&cause, mark).await.data(200);
    let owner = app.browser().await;
    subscribe(&owner, &resources.service, "low", "none").await;
    key.create_changes(changes).await;
    wait_for_notifications(app).await;
    let notified = owner.get("/notifications").await;
    assert!(notified.text.contains(&word), "{}", notified.text);
    let described = "# One\n\n## Two\n\nText `code` and [a link](https://example.com).\n\n> said\n\n\
        ```\na very long line of code that is certainly wider than any telephone is, or so one hopes\n```\n\n\
        | a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\n1. one";
    let texts = json!({ "description": described, "impact": "# Also" });
    let path = format!("/api/changes/{}", resources.change);
    key.update(&path, texts).await;
}

async fn form_responses_pass_the_checks(app: TestApp, browser: Chromium) {
    let mut problems = Vec::new();
    browser.open(&app.at("/sign-in")).await;
    super::try_sign_in(&browser, "nobody@example.com", "nobody's").await;
    browser.wait_for("#sign-in-error").await;
    check_in_all_looks(&browser, "sign-in refused", &mut problems).await;
    sign_in(&browser, &app, &app.organization).await;
    // Empty pages.
    for path in [
        "/",
        "/changes",
        "/incidents",
        "/services",
        "/hosts",
        "/activity",
    ] {
        browser.open(&format!("{}{path}", app.url())).await;
        check_in_all_looks(&browser, &format!("{path} when it is empty"), &mut problems).await;
    }
    for (path, button) in [
        ("/changes/new", "Log change"),
        ("/incidents/new", "Open incident"),
        ("/services/new", "Create service"),
        ("/hosts/new", "Create host"),
        ("/settings/api-keys", "Create key"),
        ("/settings/workloads", "Create workload identity"),
        ("/settings/members", "Invite"),
        ("/account", "Change password"),
    ] {
        browser.open(&format!("{}{path}", app.url())).await;
        browser.press(button).await;
        browser.wait_for("[role='alert']").await;
        check_in_all_looks(&browser, &format!("{path} refused"), &mut problems).await;
    }
    browser.open(&app.at("/settings/api-keys")).await;
    browser
        .fill("main form[action='/settings/api-keys']", &[("name", "one")])
        .await;
    browser.press("Create key").await;
    browser.wait_for("#new-api-key").await;
    check_in_all_looks(&browser, "a new key", &mut problems).await;
    browser.open(&app.at("/settings/members")).await;
    browser
        .fill(
            "main form[action$='/invite']",
            &[("email", "grace@example.com")],
        )
        .await;
    browser.press("Invite").await;
    browser.wait_for("#invitation-link").await;
    check_in_all_looks(&browser, "an invitation", &mut problems).await;
    browser
        .open(&app.at("/settings/sources/new?kind=argocd"))
        .await;
    browser.press("Add the source").await;
    browser.wait_for("[role='alert']").await;
    check_in_all_looks(&browser, "a source refused", &mut problems).await;
    browser.fill("main form", &[("name", "Argo CD")]).await;
    browser.press("Add the source").await;
    browser.wait_for("#new-secret").await;
    check_in_all_looks(&browser, "a new source", &mut problems).await;
    // The setup page.
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", app.empty_database().await);
    let server = Server::start(command).await.expect("it serves");
    let log = server.log();
    let link = super::between(&log, "create one: ", "\n");
    browser.open(link.trim()).await;
    check_in_all_looks(&browser, "/setup", &mut problems).await;
    browser.press("Create organization").await;
    browser.wait_for("[role='alert']").await;
    check_in_all_looks(&browser, "/setup refused", &mut problems).await;
    let fields = [
        ("organization", "Umbrella"),
        ("name", "Grace"),
        ("email", "grace@example.com"),
        ("password", super::PASSWORD),
    ];
    browser.fill("form", &fields).await;
    browser.press("Create organization").await;
    browser.wait_for("#new-api-key").await;
    check_in_all_looks(&browser, "/setup done", &mut problems).await;
    assert_none(&problems);
}

async fn the_bar_fits_every_width(app: TestApp, browser: Chromium) {
    let name = [("name", "An organization with a name that is long")];
    app.browser()
        .await
        .submit("/settings/organization", &name)
        .await;
    sign_in(&browser, &app, &app.organization).await;
    browser
        .wait_for("[data-freshness=live]:not([hidden])")
        .await;
    for width in [320, 360, 480, 767, 768, 1024, 1215, 1216, 1280, 1439, 1440] {
        browser.set_width(width).await;
        let bar =
            "const [page, search] = [document.scrollingElement, document.getElementById('search')];
            return [page.scrollWidth - innerWidth, search.clientWidth]";
        let bar = browser.script(bar).await;
        assert!(bar[0].as_i64() <= Some(0), "{width}: {bar}");
        assert!(bar[1].as_i64() >= Some(60), "{width}: {bar}");
    }
}

async fn long_names_fit_every_page(app: TestApp, browser: Chromium) {
    let long = "n".repeat(100);
    let owner = app.browser().await;
    let renamed = [("name", long.as_str())];
    owner.submit("/settings/organization", &renamed).await;
    let key = app.key();
    let service = key.service(&long).await;
    let host = format!("{}.example.com", "h".repeat(63));
    let host = json!({ "hostname": host, "description": "d".repeat(500) });
    let host = key.create("/api/hosts", host).await;
    let body = json!({
        "title": "t".repeat(300), "service_id": service, "host_id": host, "status": "completed",
        "agent": { "name": long }, "on_behalf_of": long, "tags": ["g".repeat(50)],
        "environment": "prod",
    });
    let change = key.create("/api/changes", body).await;
    let incident = json!({ "title": "i".repeat(200), "service_id": service });
    let incident = key.create("/api/incidents", incident).await;
    let cause = json!({ "change_id": change });
    let path = format!("/api/incidents/{incident}/cause");
    key.put(&path, cause).await.is(200);
    sign_in(&browser, &app, &app.organization).await;
    let mut problems = Vec::new();
    for path in [
        "/".to_owned(),
        format!("/around?service={long}"),
        "/changes".to_owned(),
        format!("/changes/{change}"),
        "/incidents".to_owned(),
        format!("/incidents/{incident}"),
        "/services".to_owned(),
        format!("/services/{service}"),
        format!("/hosts/{host}"),
        "/account".to_owned(),
        "/activity".to_owned(),
        "/settings/organization".to_owned(),
    ] {
        for width in [375, 1440] {
            browser.set_width(width).await;
            browser.open(&app.at(&path)).await;
            browser.wait_for("main h1").await;
            let wider = browser.script(WIDER).await;
            if wider.as_f64() > Some(0.0) {
                problems.push(format!("{path}, {width} wide: {wider} pixels wider"));
            }
        }
    }
    assert_none(&problems);
}

async fn descriptions_do_not_look_like_links(app: TestApp, browser: Chromium) {
    let service = json!({ "name": "payments", "description": "Takes money." });
    let service = app.key().create("/api/services", service).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at(&format!("/services/{service}"))).await;
    browser.wait_for("#description + .plain").await;
    let lines = browser.script(
        "return ['#description + .plain', '[data-help]'].map((one) =>
            getComputedStyle(document.querySelector(one)).textDecorationLine)",
    );
    assert_eq!(lines.await, json!(["none", "underline"]));
}

async fn the_checks_find_faults(app: TestApp, browser: Chromium) {
    browser.open(&app.at("/sign-in")).await;
    assert_none(&check_page(&browser, "light", 1280).await);
    let spoil = "document.documentElement.lang = '';
        const main = document.querySelector('main');
        main.insertAdjacentHTML('beforeend', `<h4>deep</h4><input id=email><button></button>
            <p id=faint>faint</p><a href=/x></a><ul><p>no item</p></ul><table><tr><td>1</td></tr></table>
            <div><a href=/y>y</a></div><a id=bare href=/z>z</a><div id=broad>x</div><p aria-labelledby=nowhere>x</p>`);
        document.querySelector('a[href$=y]').parentElement.style.overflow = 'hidden';
        bare.style.outline = 'none'; faint.style.color = '#bbb'; broad.style.width = '3000px';
        const style = document.createElement('style'); style.textContent = 'main { color: red }';
        document.head.append(style); console.error('not well');";
    browser.script(spoil).await;
    let found = check_page(&browser, "light", 1280).await;
    for wanted in [
        "no language",
        "h4 after h1",
        "the id email twice",
        "a field without a label",
        "nothing says what this does: <button>",
        "nothing says what this does: <a",
        "contrast 1.",
        "in a list and no item",
        "a table without heads",
        "wider than the window",
        "names nowhere",
        "the ring around the focus is cut off",
        "no ring around the focus: <a id=\"bare\"",
        "not well",
        "Content Security Policy",
    ] {
        assert!(
            found.iter().any(|line| line.contains(wanted)),
            "{wanted}: {found:#?}"
        );
    }
    assert!(
        axe().is_none() || found.iter().any(|line| line.starts_with("axe ")),
        "{found:#?}"
    );
}
