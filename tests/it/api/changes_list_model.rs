//! Compares pages, time ranges and filter combinations of thousands of changes, spread
//! over milliseconds and decades, with a model that filters a list in memory.

use super::list_model::{
    DAY, HOUR, MIDDLE, Model, Query, Random, SECOND, TAGS, YEAR, millis, risk_and_status_queries,
};
use changelog_tests::{TestApp, on_both, text};

on_both!(
    every_page_matches_the_model,
    every_time_range_matches_the_model,
    every_filter_combination_matches_the_model,
);

/// Queries with several risk levels, statuses or environments.
fn several_values_queries() -> [Query; 6] {
    let of =
        |risks: &[&'static str], statuses: &[&'static str], environments: &[&'static str]| Query {
            risks: risks.to_vec(),
            statuses: statuses.to_vec(),
            environments: environments.to_vec(),
            ..Query::default()
        };
    [
        of(&["high", "medium"], &[], &[]),
        of(&[], &["in_progress", "completed", "rolled_back"], &[]),
        of(&["high", "low"], &["completed", "planned"], &[]),
        of(&[], &[], &["prod"]),
        of(&["high"], &[], &["prod", "staging"]),
        of(
            &["medium", "high"],
            &["in_progress", "completed", "rolled_back"],
            &["prod"],
        ),
    ]
}

async fn every_page_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        model.assert_matches(&model.page_requests()).await;
        // All pages of a list, including those that are found by the stored counts.
        let author = Query {
            author: Some(text(&model.key.read("/api/key").await["name"])),
            ..Query::default()
        };
        let recent = Query {
            since: Some(MIDDLE - 60 * DAY),
            ..author.clone()
        };
        for query in [Query::default(), author, recent] {
            let pages: Vec<_> = (1..=101).map(|page| (query.clone(), page, 30)).collect();
            model.assert_matches(&pages).await;
        }
    }
    // Reading by cursor yields each change once, with any filter.
    let with = |change: fn(&mut Query, &Model)| {
        let mut query = Query::default();
        change(&mut query, &model);
        query
    };
    for query in [
        with(|_, _| {}),
        with(|query, _| query.risks = vec!["low"]),
        with(|query, _| (query.risks, query.statuses) = (vec!["low"], vec!["planned"])),
        with(|query, _| query.risks = vec!["high", "medium"]),
        with(|query, _| query.environments = vec!["prod"]),
        with(|query, _| {
            (query.statuses, query.since) = (vec!["in_progress", "completed"], Some(MIDDLE));
        }),
        with(|query, _| query.text = vec!["host", "alph"]),
        with(|query, _| query.tags = vec!["prod"]),
        with(|query, _| query.tags = vec!["prod", "eu"]),
        with(|query, model| query.service = Some(model.services[0].clone())),
        with(|query, model| query.host = Some(model.hosts[1].clone())),
        with(|query, _| query.words = vec!["alph"]),
        with(|query, _| (query.since, query.until) = (Some(MIDDLE - DAY), Some(MIDDLE + 5))),
    ] {
        let mut query = query;
        let expected: Vec<String> = model
            .selected(&query)
            .iter()
            .map(|one| one.id.clone())
            .collect();
        let mut listed: Vec<(i64, String)> = Vec::new();
        loop {
            let path = query.path(1, 73);
            let body = model.key.body(&path).await;
            assert_eq!(body["count"], expected.len(), "{path}");
            let changes = body["data"].as_array().expect("a list");
            listed.extend(changes.iter().map(|change| {
                let at = change["started_at"]
                    .as_str()
                    .or(change["occurred_at"].as_str());
                (millis(at.expect("a time")), text(&change["id"]))
            }));
            let last = listed.last().cloned();
            if last.is_none() || last == query.before {
                break;
            }
            query.before = last;
        }
        let ids: Vec<String> = listed.into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, expected, "{query:?}");
    }
    // Pages after a cursor are pages of the remaining changes.
    let cursors: Vec<_> = [0, 1, 700, 2_500, 2_999]
        .into_iter()
        .flat_map(|index| {
            let change = &model.changes[index];
            let before = Some((change.millis, change.id.clone()));
            let pages = [(1, 10), (2, 10), (23, 99), (2_000, 1), (2_299, 1)];
            risk_and_status_queries()
                .into_iter()
                .flat_map(move |query| {
                    let query = Query {
                        before: before.clone(),
                        ..query
                    };
                    pages.map(|(page, per_page)| (query.clone(), page, per_page))
                })
        })
        .collect();
    model.assert_matches(&cursors).await;
}

async fn every_time_range_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        let mut random = Random(3 + round);
        let mut requests = Vec::new();
        for number in 0..400 {
            let since = range_end(&mut random, &model);
            // Often short, sometimes empty or inverted.
            let until = match random.below(4) {
                0 => since.map(|since| since + random.below(3 * SECOND) - 500),
                1 => since.map(|since| since + random.below(3 * HOUR) / SECOND * SECOND),
                _ => range_end(&mut random, &model),
            };
            let query = Query {
                since,
                until,
                ..risk_and_status_queries()[number % 4].clone()
            };
            let page = if number % 10 == 0 { 2 } else { 1 };
            requests.push((query, page, 7));
        }
        // Also with filters that have no stored counts by time.
        for number in 0..60 {
            let mut query = Query {
                since: range_end(&mut random, &model),
                until: range_end(&mut random, &model),
                ..risk_and_status_queries()[random.index(4)].clone()
            };
            match number % 4 {
                0 => query.tags = vec![random.pick(&TAGS)],
                1 => query.service = Some(random.pick(&model.services)),
                2 => query.host = Some(random.pick(&model.hosts)),
                _ => query.words = vec!["de"],
            }
            requests.push((query, 1, 7));
        }
        model.assert_matches(&requests).await;
    }
}

/// Returns an end of a time range: open, at a change or one millisecond off, at the
/// boundary of a second, an hour or a day, or anywhere, including before 1970 and far in
/// the future.
fn range_end(random: &mut Random, model: &Model) -> Option<i64> {
    let at = random.pick(&model.changes).millis;
    match random.below(9) {
        0 => None,
        1 | 2 => Some(at + random.below(3) - 1),
        3 => Some(at / SECOND * SECOND),
        4 => Some((at / HOUR + random.below(2)) * HOUR),
        5 => Some((at / DAY + random.below(2)) * DAY),
        6 => Some(MIDDLE + random.below(4 * SECOND) - 2 * SECOND),
        7 => Some(random.below(60 * YEAR)),
        _ => Some(random.pick(&[-YEAR, -1, 0, 1, MIDDLE, 300 * YEAR, 7_000 * YEAR])),
    }
}

async fn every_filter_combination_matches_the_model(app: TestApp) {
    let mut model = Model::new(&app).await;
    for round in 0..2 {
        if round == 1 {
            model.update().await;
        }
        let nowhere = Some(uuid::Uuid::now_v7().to_string());
        let services = [None, Some(model.services[0].clone()), nowhere];
        let hosts = [None, Some(model.hosts[2].clone())];
        let tags: [&[&str]; 5] = [&[], &["prod"], &["ä&=%"], &["prod", "a b"], &["PROD"]];
        let words: [&[&str]; 4] = [&[], &["deploy"], &["alph", "r"], &["uber"]];
        let mut requests = Vec::new();
        for kind in risk_and_status_queries().into_iter().chain([Query {
            statuses: vec!["rolled_back"],
            ..Query::default()
        }]) {
            for service in &services {
                for host in &hosts {
                    for tags in tags {
                        for words in words {
                            let query = Query {
                                service: service.clone(),
                                host: host.clone(),
                                tags: tags.to_vec(),
                                words: words.to_vec(),
                                ..kind.clone()
                            };
                            requests.push((query, 1 + requests.len() % 3, 20));
                        }
                    }
                }
            }
        }
        for kind in several_values_queries() {
            for (service, tags, text) in [
                (None, &[][..], &[][..]),
                (Some(model.services[1].clone()), &[], &[]),
                (None, &["prod"], &[]),
                (None, &[], &["alph", "prod"]),
                (None, &[], &["service"]),
                (None, &["eu"], &["host", "a"]),
            ] {
                for since in [None, Some(MIDDLE - DAY)] {
                    let query = Query {
                        service: service.clone(),
                        tags: tags.to_vec(),
                        text: text.to_vec(),
                        since,
                        ..kind.clone()
                    };
                    requests.push((query, 1 + requests.len() % 3, 20));
                }
            }
        }
        model.assert_matches(&requests).await;
    }
}
