//! What the environment asks for.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;

/// Fewer changes have no room for a hundred rare ones.
const LEAST: u64 = 1_000;

/// Which database is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

pub(crate) struct Settings {
    /// How many changes are stored.
    pub(crate) changes: u64,
    /// How long a measure takes.
    pub(crate) window: Duration,
    pub(crate) engines: Vec<Engine>,
    /// Whether the service is measured by itself.
    pub(crate) speed: bool,
    /// Whether one organization is measured beside another.
    pub(crate) share: bool,
    /// The program to measure, when it is not to be built.
    pub(crate) server: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let changes = number("BENCH_CHANGES", 1_000_000)?;
        if changes < LEAST {
            return Err(format!("BENCH_CHANGES must be {LEAST} or more, got {changes}").into());
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
