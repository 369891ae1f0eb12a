use serde_json::{Value, json};

use super::*;
use crate::ids::ChangeId;

const AT: &str = "2026-11-21T12:00:00.000Z";
const PAYMENTS: u32 = 1;
const POSTGRES: u32 = 2;
const CHECKOUT: u32 = 3;
const SEARCH: u32 = 4;
const WEB: u32 = 5;
const CARDS: u32 = 6;

fn at() -> Timestamp {
    AT.parse().unwrap()
}

fn before(minutes: i64) -> Timestamp {
    Timestamp::from_millis(at().millis() - minutes * 60_000)
}

fn id<T: std::str::FromStr>(number: u32) -> T
where
    T::Err: std::fmt::Debug,
{
    let id = format!("018f4e9a-7b1c-7d3e-9a51-{number:012}");
    id.parse().unwrap()
}

fn named(number: u32, name: &str) -> ServiceRef {
    ServiceRef {
        id: id(number),
        name: name.to_owned(),
        color: "#fff".to_owned(),
    }
}

fn service(number: u32, name: &str) -> Value {
    json!({ "id": id::<ChangeId>(number), "name": name, "color": "#fff" })
}

fn host(number: u32) -> Value {
    json!({ "id": id::<ChangeId>(number), "hostname": "web-1", "environment": "prod" })
}

/// A change of low risk that started so many minutes before the moment.
fn change(number: u32, minutes: i64, more: &Value) -> Candidate {
    fn read<T: serde::de::DeserializeOwned>(more: &Value, name: &str) -> Option<T> {
        more.get(name)
            .map(|value| serde_json::from_value(value.clone()).unwrap())
    }
    Candidate {
        id: id(number + 100),
        title: read(more, "title").unwrap_or_else(|| "Deploy".to_owned()),
        started_at: before(minutes),
        ended_at: read(more, "ended").map(before),
        outcome: read(more, "outcome"),
        undone_at: read(more, "undone").map(before),
        risk_level: read(more, "risk").unwrap_or(crate::RiskLevel::Low),
        status: read(more, "status").unwrap_or(crate::Status::Completed),
        environment: read(more, "environment"),
        service: read(more, "service"),
        more_services: read(more, "more").unwrap_or_default(),
        host_ref: read(more, "host"),
        agent: read(more, "agent"),
        by_hand: read(more, "by_hand").unwrap_or_default(),
    }
}

fn affected() -> Affected {
    Affected {
        service: Some(named(PAYMENTS, "payments")),
        dependencies: vec![named(POSTGRES, "postgres")],
        dependents: vec![named(CHECKOUT, "checkout")],
        host: Some(id(WEB)),
        environment: Some(Environment::Prod),
        words: [("timeout", vec![]), ("card", vec![id(CARDS)])]
            .map(|(word, services)| SymptomWord {
                word: word.to_owned(),
                services,
            })
            .into(),
    }
}

/// Ranks changes within a week.
fn rank_all(changes: &[Candidate], affected: &Affected) -> Vec<Ranked> {
    rank(changes.to_vec(), affected, at(), Some(10_080), 100).ranked
}

/// Returns the reasons of the only change, without that for being recent.
fn reasons(change: Candidate) -> Vec<(i32, String)> {
    let ranked = rank_all(&[change], &affected());
    let reasons = ranked[0].reasons.iter();
    reasons
        .filter(|reason| reason.code != ReasonCode::Recent)
        .map(|reason| (reason.points, reason.text.clone()))
        .collect()
}

#[test]
fn each_reason_has_its_points_and_words() {
    let deploy = |more: Value| reasons(change(1, 5, &more));
    for (more, expected) in [
        (json!({}), vec![]),
        (
            json!({ "service": service(PAYMENTS, "payments") }),
            vec![(64, "same service: payments")],
        ),
        (
            json!({ "service": service(SEARCH, "search"), "more": [id::<ChangeId>(PAYMENTS)] }),
            vec![(48, "touched payments")],
        ),
        (
            json!({ "service": service(POSTGRES, "postgres") }),
            vec![(24, "payments depends on postgres")],
        ),
        (
            json!({ "service": service(SEARCH, "search"), "more": [id::<ChangeId>(CHECKOUT)] }),
            vec![(10, "checkout depends on payments")],
        ),
        (json!({ "service": service(SEARCH, "search") }), vec![]),
        (
            json!({ "host": host(WEB), "environment": "prod" }),
            vec![(64, "same host: web-1")],
        ),
        (
            json!({ "host": host(SEARCH), "environment": "prod" }),
            vec![(15, "same environment: prod")],
        ),
        (
            json!({ "host": host(SEARCH), "environment": "test" }),
            vec![],
        ),
        (
            json!({ "title": "Set timeouts of cards" }),
            vec![(20, "mentions timeout, card")],
        ),
        (
            json!({ "title": "Discard", "service": service(SEARCH, "card-search") }),
            vec![(10, "mentions card")],
        ),
        (
            json!({ "service": service(SEARCH, "search"), "more": [id::<ChangeId>(CARDS)] }),
            vec![(10, "mentions card")],
        ),
        (json!({ "risk": "high" }), vec![(15, "high risk")]),
        (json!({ "risk": "medium" }), vec![(7, "medium risk")]),
        (json!({ "by_hand": true }), vec![(10, "made by hand")]),
        (
            json!({ "title": "Revert \"Deploy\"" }),
            vec![(-20, "undoes an earlier change")],
        ),
        (
            json!({ "title": "Reland \"Deploy\"" }),
            vec![(10, "repeats a change that had been undone")],
        ),
        (
            json!({ "status": "in_progress" }),
            vec![(20, "still in progress")],
        ),
        // Ended 10 minutes after the moment, or before it.
        (
            json!({ "ended": -10 }),
            vec![(20, "in progress at that time")],
        ),
        (json!({ "ended": 1 }), vec![]),
        (
            json!({ "status": "rolled_back", "ended": -10 }),
            vec![(20, "in progress at that time")],
        ),
        (
            json!({ "status": "rolled_back", "ended": 3, "undone": 3 }),
            vec![(-20, "undone 3 minutes before")],
        ),
        (
            json!({ "status": "rolled_back", "ended": -12, "undone": -12 }),
            vec![(400, "rolled back 12 minutes later")],
        ),
    ] {
        let expected: Vec<(i32, String)> = expected
            .into_iter()
            .map(|(points, text)| (points, text.to_owned()))
            .collect();
        assert_eq!(deploy(more.clone()), expected, "{more}");
    }
}

#[test]
fn what_was_made_by_hand_is_before_its_equals_only() {
    let order = |more: Value| -> Vec<ChangeId> {
        let by_hand = json!({ "by_hand": true });
        // The newest is the first of equal changes.
        let changes = [change(1, 5, &by_hand), change(2, 5, &more)];
        let ranked = rank_all(&changes, &affected());
        ranked.into_iter().map(|one| one.id).collect()
    };
    assert_eq!(order(json!({})), [101, 102].map(id));
    for stronger in [
        json!({ "risk": "high" }),
        json!({ "environment": "prod" }),
        json!({ "service": service(POSTGRES, "postgres") }),
    ] {
        assert_eq!(order(stronger), [102, 101].map(id));
    }
}

#[test]
fn an_agent_whose_other_changes_went_wrong_is_told_of() {
    let told = |others: &[Value]| -> Option<String> {
        let mut changes = vec![change(1, 5, &json!({ "agent": "Renovate" }))];
        for (number, other) in (2..).zip(others) {
            changes.push(change(number, 10, other));
        }
        let ranked = rank_all(&changes, &affected());
        let one = ranked.into_iter().find(|one| one.id == id(101))?;
        let mut reasons = one.reasons.into_iter();
        let reason = reasons.find(|reason| reason.code == ReasonCode::AgentInTrouble)?;
        assert_eq!(reason.points, 10);
        Some(reason.text)
    };
    let good = json!({ "agent": "renovate" });
    let undone = json!({ "agent": "renovate", "status": "rolled_back", "undone": 2 });
    let failed =
        json!({ "agent": "RENOVATE", "status": "rolled_back", "outcome": "failed", "ended": 9 });
    let later = json!({ "agent": "renovate", "status": "rolled_back", "undone": -2 });
    let other = json!({ "agent": "other", "status": "rolled_back", "undone": 2 });
    let planned = json!({ "agent": "renovate", "status": "planned" });
    assert_eq!(
        told(&[
            undone.clone(),
            failed.clone(),
            good.clone(),
            planned,
            other.clone()
        ])
        .unwrap(),
        "2 of 3 other changes by Renovate before had failed or been undone"
    );
    // Too few of them, too few altogether, those of others, and what was undone afterwards.
    let many = vec![good; 3];
    assert_eq!(told(&[&many[..], &[undone.clone(), failed]].concat()), None);
    assert_eq!(told(std::slice::from_ref(&undone)), None);
    assert_eq!(told(&[undone.clone(), other.clone(), other]), None);
    assert_eq!(told(&[undone, later.clone(), later]), None);
}

#[test]
fn points_add_up_to_the_score() {
    let full = json!({
        "service": service(PAYMENTS, "payments"), "host": host(WEB), "risk": "high",
        "title": "Revert \"Longer timeout\"", "status": "in_progress",
    });
    let changes = [change(1, 61, &full), change(2, 60, &full)];
    let ranked = rank_all(&changes, &affected());
    for one in &ranked {
        let sum: i32 = one.reasons.iter().map(|reason| reason.points).sum();
        assert_eq!(sum, one.score);
        assert!(
            one.reasons
                .is_sorted_by_key(|reason| std::cmp::Reverse(reason.points))
        );
    }
    let texts: Vec<&str> = ranked[1]
        .reasons
        .iter()
        .map(|reason| &*reason.text)
        .collect();
    assert_eq!(
        texts,
        [
            "1 hour before",
            "same service: payments",
            "same host: web-1",
            "still in progress",
            "high risk",
            "mentions timeout",
            "1 newer change to payments",
            "undoes an earlier change",
        ]
    );
    assert_eq!(ranked[1].score, 74 + 64 + 64 + 20 + 15 + 10 - 6 - 20);
    assert_eq!(ranked[0].score, ranked[1].score + 6);
}

#[test]
fn what_was_undone_after_the_moment_is_first() {
    let best = json!({
        "service": service(PAYMENTS, "payments"), "host": host(WEB), "risk": "high",
        "title": "Reland \"Longer timeout for cards\"", "status": "in_progress",
    });
    let mut changes = vec![change(1, 0, &best)];
    for number in 2..20 {
        let more = json!({ "service": service(SEARCH, "search") });
        changes.push(change(number, i64::from(number), &more));
    }
    let worst = json!({
        "service": service(SEARCH, "search"), "title": "Revert \"X\"",
        "status": "rolled_back", "undone": -60,
    });
    changes.push(change(20, 7 * 1_440, &worst));
    let first = &rank_all(&changes, &affected())[0];
    assert_eq!(first.id, id(120));
    assert_eq!(first.score, 400 + 6 - 24 - 20);
}

#[test]
fn a_busy_service_does_not_fill_the_page() {
    let busy = json!({ "service": service(SEARCH, "search") });
    let mut changes: Vec<Candidate> = (0..30)
        .map(|number| change(number, 10 + i64::from(number), &busy))
        .collect();
    changes.push(change(
        50,
        50,
        &json!({ "service": service(CHECKOUT, "checkout") }),
    ));
    // Planned changes have not happened.
    changes.push(change(
        51,
        1,
        &json!({ "service": service(SEARCH, "search"), "status": "planned" }),
    ));
    let ranked = rank_all(&changes, &Affected::default());
    let order: Vec<ChangeId> = ranked.iter().map(|one| one.id).take(4).collect();
    assert_eq!(order, [151, 100, 101, 150].map(id));
    let last = ranked.iter().find(|one| one.id == id(129)).unwrap();
    let crowd = last.reasons.last().unwrap();
    assert_eq!(
        (crowd.points, crowd.text.as_str()),
        (-24, "29 newer changes to search")
    );
}

#[test]
fn the_newest_of_equal_changes_is_ranked_first() {
    let mut changes: Vec<Candidate> = (0..9)
        .map(|number| change(number, i64::from(number % 3) * 30, &json!({})))
        .collect();
    let order = |changes: &[Candidate]| -> Vec<ChangeId> {
        let ranked = rank_all(changes, &Affected::default());
        ranked.into_iter().map(|one| one.id).collect()
    };
    let first = order(&changes);
    assert_eq!(first, [106, 103, 100, 107, 104, 101, 108, 105, 102].map(id));
    changes.reverse();
    assert_eq!(order(&changes), first);
    let three = rank(changes, &Affected::default(), at(), None, 3);
    assert_eq!(three.ranked.len(), 3);
    assert_eq!(three.considered, 9);
}

#[test]
fn the_window_grows_until_something_of_weight_is_in_it() {
    let payments = |minutes| {
        change(
            1,
            minutes,
            &json!({ "service": service(PAYMENTS, "payments") }),
        )
    };
    let plain = |minutes| {
        change(
            2,
            minutes,
            &json!({ "risk": "high", "status": "in_progress" }),
        )
    };
    let undone = |minutes| {
        change(
            3,
            minutes,
            &json!({ "undone": -5, "status": "rolled_back" }),
        )
    };
    let window = |changes: &[Candidate], affected: &Affected| {
        let ranking = rank(changes.to_vec(), affected, at(), None, 100);
        let oldest = ranking.considered;
        (ranking.window_minutes, ranking.widened, oldest)
    };
    let nothing = Affected::default();
    for (changes, affected, expected) in [
        (vec![], affected(), (10_080, true, 0)),
        (vec![], nothing.clone(), (10_080, true, 0)),
        (vec![payments(1_440)], affected(), (1_440, false, 1)),
        (
            vec![payments(1_441), plain(1)],
            affected(),
            (4_320, true, 2),
        ),
        (
            vec![payments(4_321), plain(1)],
            affected(),
            (10_080, true, 2),
        ),
        (
            vec![payments(10_081), plain(1)],
            affected(),
            (10_080, true, 1),
        ),
        // What happened afterwards is not in any window.
        (vec![payments(-1), plain(1)], affected(), (10_080, true, 1)),
        (vec![undone(20), plain(1)], affected(), (1_440, false, 2)),
        (vec![undone(2_000), plain(1)], affected(), (4_320, true, 2)),
        (
            vec![payments(4_321), plain(1)],
            nothing.clone(),
            (1_440, false, 1),
        ),
        (vec![payments(4_321)], nothing.clone(), (10_080, true, 1)),
    ] {
        assert_eq!(window(&changes, &affected), expected, "{changes:?}");
    }
    let given = rank(vec![payments(1_441)], &affected(), at(), Some(60), 100);
    assert_eq!((given.window_minutes, given.widened), (60, false));
    assert_eq!((given.since, given.considered), (before(60), 0));
}
