//! The settings from the environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;

/// The minimum number of changes, which include a hundred rare ones.
const MIN_CHANGES: u64 = 1_000;

/// A database to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

pub(crate) struct Settings {
    /// The number of stored changes.
    pub(crate) changes: u64,
    /// The time of a measurement.
    pub(crate) window: Duration,
    pub(crate) engines: Vec<Engine>,
    /// Whether the speed is measured.
    pub(crate) speed: bool,
    /// Whether an organization is measured during the load of another one.
    pub(crate) share: bool,
    /// The program to measure; built if absent.
    pub(crate) server: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let changes = number("BENCH_CHANGES", 1_000_000)?;
        if changes < MIN_CHANGES {
            return Err(
                format!("BENCH_CHANGES must be {MIN_CHANGES} or more, got {changes}").into(),
            );
        }
        let names = std::env::var("BENCH_ENGINES").unwrap_or_else(|_| "sqlite,postgres".to_owned());
        let engines: Result<_, Failure> = names.split(',').map(engine).collect();
        let parts = std::env::var("BENCH_PARTS").unwrap_or_else(|_| "speed,share".to_owned());
        let has = |part: &str| parts.split(',').any(|wanted| wanted.trim() == part);
        if let Some(other) = parts
            .split(',')
            .find(|part| !["speed", "share"].contains(&part.trim()))
        {
            return Err(format!("BENCH_PARTS must name speed or share, got {other:?}").into());
        }
        Ok(Self {
            speed: has("speed"),
            share: has("share"),
            changes,
            window: Duration::from_secs(number("BENCH_SECONDS", 5)?),
            engines: engines?,
            server: std::env::var_os("BENCH_SERVER").map(PathBuf::from),
        })
    }
}

fn engine(name: &str) -> Result<Engine, Failure> {
    match name.trim() {
        "sqlite" => Ok(Engine::Sqlite),
        "postgres" => Ok(Engine::Postgres),
        other => Err(format!("BENCH_ENGINES must name sqlite or postgres, got {other:?}").into()),
    }
}

fn number(name: &str, default: u64) -> Result<u64, Failure> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{name} must be a number above 0, got {text:?}").into()),
        Err(_) => Ok(default),
    }
}
