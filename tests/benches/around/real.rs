//! Real histories, which are not part of the repository: their folder's README describes
//! the format.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Failure;
use crate::history::{Change, History, Incident};

/// How many services a dependent service is taken to depend on, at most, in addition to
/// those of the incidents: those that are changed together with it most often. Without
/// them, its record of dependencies would name the answer.
const OTHER_DEPENDENCIES: usize = 9;
/// The length that the service allows for titles and for names, in characters.
const MIN_TITLE_CHARS: usize = 3;
const MAX_TITLE_CHARS: usize = 300;

/// The first line of a history.
#[derive(Deserialize)]
struct Head {
    org: String,
    services: Vec<String>,
    envs: Vec<String>,
}

/// A line of a history: the hash, the seconds since the change before, the repository, the
/// services, the environment, the author, the files, the lines, the title, and the hashes
/// of the changes that it undoes.
type Line = (
    String,
    i64,
    IgnoredAny,
    Vec<usize>,
    usize,
    IgnoredAny,
    IgnoredAny,
    IgnoredAny,
    String,
    Vec<String>,
);

#[derive(Deserialize)]
struct IncidentLine {
    at: i64,
    culprits: Vec<String>,
    service: String,
    related: Option<String>,
    why: Option<String>,
}

/// Returns the folder next to the repository that has the histories.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/incidents")
}

/// Reads all histories of a folder, in the order of their names.
pub(crate) fn histories(folder: &Path) -> Result<Vec<History>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let organization = name
            .strip_prefix("incidents-")
            .and_then(|name| name.strip_suffix(".jsonl.gz"));
        names.extend(organization.map(str::to_owned));
    }
    names.sort();
    names.iter().map(|name| read(folder, name)).collect()
}

fn read(folder: &Path, name: &str) -> Result<History, Failure> {
    let mut lines = lines(&folder.join(format!("{name}.jsonl.gz")))?;
    let head = lines.next().ok_or("an empty history")??;
    let Head {
        org,
        services,
        envs,
    } = serde_json::from_str(&head)?;
    let mut changes: Vec<Change> = Vec::new();
    let mut numbers = HashMap::new();
    let mut seconds = 0;
    for line in lines {
        let line: Line = serde_json::from_str(&line?)?;
        let (hash, pause, _, mut touched, environment, .., title, undone) = line;
        seconds += pause;
        for hash in undone {
            let number: Option<&usize> = numbers.get(&hash);
            if let Some(change) = number.and_then(|number| changes.get_mut(*number)) {
                change.undone_at.get_or_insert(seconds * 1_000);
            }
        }
        numbers.insert(hash, changes.len());
        let mut seen = HashSet::new();
        touched.retain(|service| seen.insert(*service));
        changes.push(Change {
            at: seconds * 1_000,
            title: allowed(&title),
            services: touched,
            environment: envs.get(environment).and_then(|name| word(name)),
            undone_at: None,
        });
    }
    let incidents = incidents(folder, name, &services, &changes, &numbers)?;
    Ok(History {
        name: org,
        dependencies: dependencies(&changes, &incidents),
        services,
        changes,
        incidents,
    })
}

fn incidents(
    folder: &Path,
    name: &str,
    services: &[String],
    changes: &[Change],
    numbers: &HashMap<String, usize>,
) -> Result<Vec<Incident>, Failure> {
    let number = |name: &String| services.iter().position(|service| service == name);
    let mut incidents = Vec::new();
    for line in lines(&folder.join(format!("incidents-{name}.jsonl.gz")))? {
        let line: IncidentLine = serde_json::from_str(&line?)?;
        let culprits = line.culprits.iter();
        let culprits: Vec<usize> = culprits
            .filter_map(|hash| numbers.get(hash).copied())
            .collect();
        if culprits.is_empty() {
            return Err(format!("an incident of {name} has no cause in its history").into());
        }
        let service = number(&line.service).ok_or("an incident of an unknown service")?;
        let touched = culprits
            .iter()
            .flat_map(|culprit| &changes[*culprit].services);
        let other = touched.copied().find(|touched| *touched != service);
        incidents.push(Incident {
            at: line.at * 1_000,
            culprits,
            service,
            other,
            dependent: line.related.as_ref().and_then(number),
            symptom: line.why,
        });
    }
    incidents.sort_by_key(|incident| incident.at);
    Ok(incidents)
}

/// Returns what each dependent service depends on: the services of its incidents, and
/// those that are changed together with it most often.
fn dependencies(changes: &[Change], incidents: &[Incident]) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for incident in incidents {
        let Some(dependent) = incident.dependent else {
            continue;
        };
        all.push((dependent, incident.service));
        let mut together: HashMap<usize, usize> = HashMap::new();
        for change in changes
            .iter()
            .filter(|change| change.services.contains(&dependent))
        {
            for other in change.services.iter().filter(|other| **other != dependent) {
                *together.entry(*other).or_default() += 1;
            }
        }
        let mut together: Vec<(usize, usize)> = together.into_iter().collect();
        together.sort_by_key(|(other, count)| (std::cmp::Reverse(*count), *other));
        let together = together.into_iter().take(OTHER_DEPENDENCIES);
        all.extend(together.map(|(other, _)| (dependent, other)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn lines(
    path: &Path,
) -> Result<impl Iterator<Item = Result<String, std::io::Error>> + use<>, Failure> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufReader::new(MultiGzDecoder::new(file)).lines())
}

/// Returns the service's word for an environment.
fn word(name: &str) -> Option<&'static str> {
    ["prod", "staging", "test", "dev"]
        .into_iter()
        .find(|word| *word == name)
}

/// Makes a title one that the service accepts.
fn allowed(title: &str) -> String {
    let printable = title.chars().filter(|c| !c.is_control());
    let mut title: String = printable.take(MAX_TITLE_CHARS).collect();
    while title.trim().chars().count() < MIN_TITLE_CHARS {
        title.push('.');
    }
    title
}
