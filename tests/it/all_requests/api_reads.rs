//! Requests to the API that read.

use uuid::Uuid;

use super::fixture::Fixture;

impl Fixture {
    /// Returns the paths of lists: each filter alone, each pair of filters, and the cases
    /// in which a page is found differently.
    pub(super) fn lists(&self) -> Vec<String> {
        let filters = [
            "risk_level=high".to_owned(),
            "status=completed".to_owned(),
            format!("service_id={}", self.service),
            format!("host_id={}", self.host),
            format!("tag={}", self.tag),
            format!("q={}", self.word),
            format!("text={}", self.word),
            "environment=prod".to_owned(),
            format!("created_by={}", self.author),
            format!("since={}", self.since),
            format!("until={}", self.until),
            format!("before={}", self.change),
        ];
        let mut queries = vec![
            String::new(),
            "per_page=100".to_owned(),
            format!("q={}+{}", self.word, self.other_word),
            format!("q={}", self.prefix),
            format!("tag={}&tag={}", self.tag, self.other_tag),
            format!(
                "risk_level=low&since={}&until={}&status=planned",
                self.since, self.until
            ),
            format!("service_id={}&q={}&page=2", self.service, self.word),
            filters.join("&"),
            format!("text={}", self.change),
            "text=web".to_owned(),
            "created_by=terraform".to_owned(),
            format!("before={}@{}", self.change, self.since),
            "include=updated_by".to_owned(),
        ];
        // Several values of one filter.
        for kinds in [
            "risk_level=high,medium",
            "not_status=planned",
            "min_risk=medium&not_status=planned",
            "environment=prod,staging&min_risk=medium",
            "active=true",
            "source=github&agent=terraform&by=hand",
            "by=agent,pipeline",
            "by=unattended",
            "by=hand",
            "by=hand&not_status=planned",
        ] {
            queries.push(kinds.to_owned());
            for other in [
                format!("service_id={}", self.service),
                format!("tag={}", self.tag),
                format!("q={}", self.word),
                format!("since={}", self.since),
                format!("since={}&service_id={}", self.since, self.service),
                format!("since={}&until={}", self.since, self.until),
                "page=100".to_owned(),
            ] {
                queries.push(format!("{kinds}&{other}"));
            }
        }
        // Pages that are found by the stored counts, and beyond the end.
        for page in ["page=100", "page=9000000"] {
            for kind in [
                "",
                "&risk_level=low",
                "&status=planned",
                "&risk_level=low&status=planned",
            ] {
                queries.push(format!("{page}{kind}"));
            }
            queries.push(format!("{page}&since={}", self.since));
        }
        for (number, one) in filters.iter().enumerate() {
            queries.push(one.clone());
            for other in &filters[number + 1..] {
                queries.push(format!("{one}&{other}"));
            }
        }
        let path = |query: String| format!("/api/changes?{query}");
        queries.into_iter().map(path).collect()
    }

    /// Returns the other requests that read, with their status.
    pub(super) fn reads(&self) -> Vec<(String, u16)> {
        let mut reads = vec![
            ("/api/hosts".to_owned(), 200),
            ("/api/hosts?limit=2".to_owned(), 200),
            ("/api/hosts?limit=2&after=a".to_owned(), 200),
            ("/api/services".to_owned(), 200),
            ("/api/services?limit=2".to_owned(), 200),
            ("/api/services?limit=2&after=a".to_owned(), 200),
            ("/api/incidents".to_owned(), 200),
            (
                format!("/api/incidents?service_id={}&status=open", self.service),
                200,
            ),
            (
                format!(
                    "/api/incidents?before={}&since={}&until=2999-01-01T00:00:00Z&limit=2",
                    self.incident, self.since
                ),
                200,
            ),
            (
                format!("/api/incidents?id={}&limit=2", &self.incident[..8]),
                200,
            ),
            (format!("/api/incidents/{}", self.incident), 200),
            ("/api/key".to_owned(), 200),
            ("/api/changes/upcoming".to_owned(), 200),
            ("/api/changes/upcoming?limit=2".to_owned(), 200),
        ];
        for (path, id) in [
            ("changes", &self.change),
            ("hosts", &self.host),
            ("services", &self.service),
        ] {
            reads.push((format!("/api/{path}/{id}"), 200));
            reads.push((format!("/api/{path}/{}", Uuid::now_v7()), 404));
        }
        reads.push((format!("/api/changes/{}/history", self.change), 200));
        reads.push((format!("/api/changes/{}/history", Uuid::now_v7()), 404));
        for query in [
            String::new(),
            format!("min_risk=medium&service_id={}", self.service),
            format!("text={}", self.word),
            format!("q={}&host_id={}&risk_level=high", self.word, self.host),
            format!(
                "tag={}&environment=prod&source=github&agent=terraform&by=hand&created_by={}",
                self.tag, self.author
            ),
            "status=completed&not_status=planned&active=false".to_owned(),
        ] {
            reads.push((format!("/api/changes/annotations?max=5&{query}"), 200));
        }
        let range = format!("from={}&to={}", self.since, self.until);
        reads.push((format!("/api/changes/annotations?{range}"), 200));
        let all = format!(
            "q={}&text={}&host_id={}&environment=prod&risk_level=high&status=completed\
             &not_status=planned&active=false&source=github&agent=terraform&by=hand&created_by={}&tag={}",
            self.word, self.other_word, self.host, self.author, self.tag
        );
        reads.push((format!("/api/changes/annotations?{all}"), 200));
        let around = self.around().into_iter();
        reads.extend(around.map(|path| (path, 200)));
        reads
    }

    /// Returns the questions about the changes before a moment, which read more if there
    /// are many changes.
    pub(super) fn around(&self) -> Vec<String> {
        let Self {
            service,
            host,
            word,
            other_word,
            until,
            ..
        } = self;
        [
            "limit=100".to_owned(),
            format!("at={until}&service_id={service}&host_id={host}&window_minutes=10080"),
            format!("at={until}&environment=prod&q={word}+{other_word}"),
            format!("at={until}&service_id={service}&planned=true&window_minutes=4000"),
        ]
        .map(|query| format!("/api/changes/around?{query}"))
        .into()
    }
}
