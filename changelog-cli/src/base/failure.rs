//! Failures: messages on standard error for people, exit codes for scripts.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use changelog_client::{Error, ErrorKind, TransportErrorKind};
use changelog_core::api_key::NOT_ACCEPTED;
use changelog_core::text::printable;
use changelog_core::{Invalid, ProblemCode};
use serde::{Deserialize, Serialize};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const LABEL: Style = Style::new().bold();

const WRONG_URL: &str = "is CHLOG_URL really a change log server?";

/// The exit codes, which scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// No failure: the reader of a pipe has closed it.
    Done = 0,
    Other = 1,
    Usage = 2,
    NotFound = 3,
    NotAuthorized = 4,
    Conflict = 5,
    Invalid = 6,
    Unavailable = 7,
    Cancelled = 130,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The message, in lower case and without a full stop.
    message: String,
    /// More lines: the broken rules, the ways to continue.
    lines: Vec<String>,
    /// Advice.
    hint: Option<Box<str>>,
    /// Why the server did not accept the key or the token, in its words.
    unauthorized: Option<Box<str>>,
    /// The id of the request in the server's log.
    request_id: Option<Box<str>>,
    /// What the failure means for a change that was to be recorded.
    pub(crate) cause: Cause,
}

/// What a failure means for a change that was to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// A problem on this machine or in the command.
    Other,
    /// The server rejected the change and will never accept it unchanged.
    Rejected,
    /// The server was not reached or could not respond.
    #[default]
    Unavailable,
    /// Something other than the server responded: a proxy, an ingress without a
    /// backend, a sign-in page.
    UnexpectedResponse,
    /// The key is not valid, or the plan does not include the API.
    Unauthorized,
}

/// The result of a command or a part of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            lines: Vec::new(),
            hint: None,
            unauthorized: None,
            request_id: None,
            cause: Cause::Other,
        }
    }

    /// The server did not respond.
    pub(crate) fn unavailable(message: String) -> Self {
        Self {
            cause: Cause::Unavailable,
            ..Self::new(Exit::Unavailable, message)
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A file cannot be read: probably another one is meant.
    pub(crate) fn unreadable(path: &Path, error: impl Display) -> Self {
        Self::usage(format!("cannot read {}: {error}", path.display()))
    }

    /// A file cannot be written.
    pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self::new(Exit::Other, format!("cannot write {path}: {error}"))
    }

    /// The reader of standard output has closed it: not an error.
    pub(crate) fn closed_pipe() -> Self {
        Self::new(Exit::Done, String::new())
    }

    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self::new(Exit::Cancelled, message)
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message and all further lines.
    pub(crate) fn summary(&self) -> String {
        let lines = self.lines.iter().map(String::as_str);
        let all: Vec<&str> = std::iter::once(self.message.as_str())
            .chain(lines)
            .collect();
        all.join("; ")
    }

    /// Returns whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.cause, Cause::Unavailable | Cause::UnexpectedResponse)
    }

    /// Returns whether a change with this failure is kept and sent later.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_transient() || self.cause == Cause::Unauthorized
    }

    /// Returns whether the server, or a check of its names, rejected the change for
    /// good.
    pub(crate) fn is_final(&self) -> bool {
        let is_rejected = matches!(self.exit, Exit::Invalid | Exit::NotFound | Exit::Conflict);
        self.cause == Cause::Rejected || (is_rejected && self.cause == Cause::Other)
    }

    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Says first what has failed.
    pub(crate) fn context(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Says that an id token was refused, not a key, and why.
    pub(crate) fn of_token(mut self) -> Self {
        if let Some(why) = self.unauthorized.take() {
            self.message = format!("the server does not accept the id token: {why}");
        }
        self
    }

    /// Adds advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Returns the message, and the advice or the further lines.
    pub(crate) fn message_and_advice(&self) -> (&str, Option<String>) {
        let lines = || Some(self.lines.join("; ")).filter(|lines| !lines.is_empty());
        let hint = self.hint.as_deref().map(str::to_owned);
        (&self.message, hint.or_else(lines))
    }

    /// Prints the failure on standard error and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // The user knows that Ctrl-C was pressed.
        if self.exit != Exit::Done && !self.message.is_empty() {
            let mut stderr = anstream::stderr().lock();
            let _ = self.write(&mut stderr);
        }
        ExitCode::from(self.exit as u8)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        // The text may be from the server or from what responded in its place.
        let message = printable(&self.message);
        let program = program();
        writeln!(out, "{program}{ERROR}error:{ERROR:#} {message}")?;
        for line in &self.lines {
            writeln!(out, "  {}", printable(line))?;
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "{LABEL}hint:{LABEL:#} {}", printable(hint))?;
        }
        if let Some(id) = &self.request_id {
            writeln!(out, "{LABEL}request:{LABEL:#} {}", printable(id))?;
        }
        Ok(())
    }
}

/// Whether messages begin with the name of this program.
static NAMED: AtomicBool = AtomicBool::new(false);

/// Begins all messages with the name of this program from now on: they appear among
/// those of the command that it runs.
pub(crate) fn name_program() {
    NAMED.store(true, Ordering::Relaxed);
}

fn program() -> &'static str {
    if NAMED.load(Ordering::Relaxed) {
        "chlog: "
    } else {
        ""
    }
}

/// Whether notes are suppressed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes.
pub(crate) fn silence_notes() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether warnings and notes are suppressed.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Suppresses warnings and notes, which would disturb a shell's prompt.
pub(crate) fn silence_warnings() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Prints a warning on standard error.
pub(crate) fn warn(message: &str) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    let mut stderr = anstream::stderr().lock();
    let message = printable(message);
    let program = program();
    let _ = writeln!(stderr, "{program}{WARNING}warning:{WARNING:#} {message}");
}

/// Prints what was done or is going on, on standard error.
pub(crate) fn note(message: &str) {
    if SILENT.load(Ordering::Relaxed) || QUIET.load(Ordering::Relaxed) {
        return;
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}", printable(message));
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        violations(&invalid.violations)
    }
}

/// Returns the failure for broken rules: a single one is the message, several
/// are further lines.
fn violations(violations: &[changelog_core::Violation]) -> Failure {
    match violations {
        [only] => Failure::new(Exit::Invalid, only.to_string()),
        _ => violations.iter().fold(
            Failure::new(
                Exit::Invalid,
                format!("{} values are invalid", violations.len()),
            ),
            |failure, violation| failure.line(violation.to_string()),
        ),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let detail = explanation(&error);
        let cause = cause(&error);
        let mut failure = match &error {
            Error::Builder(message) => Self::usage(message),
            // The server explains each rejection; a response without an explanation
            // is not from the server.
            Error::Api { response, .. } if response.location.is_some() => {
                Self::new(Exit::Other, response.to_string()).hint(
                    "if that is the server's new URL, use it in CHLOG_URL or --url; chlog does not \
                     follow redirects, because the key would be sent there",
                )
            }
            _ if cause == Cause::UnexpectedResponse && error.response().is_some() => {
                Self::new(Exit::Other, error.to_string()).hint(WRONG_URL)
            }
            Error::Api { kind, response } => match kind {
                // Another reason than the key, such as a path that takes a session.
                ErrorKind::Unauthorized if !detail.starts_with(NOT_ACCEPTED) => {
                    Self::new(Exit::NotAuthorized, detail)
                }
                // The server's explanation names a header, which users of chlog do not set.
                ErrorKind::Unauthorized => Self::new(
                    Exit::NotAuthorized,
                    "the server does not accept the API key: it is unknown, expired or revoked",
                )
                .hint(
                    "`chlog auth status` shows which key is used; `chlog auth login` stores another",
                ),
                ErrorKind::PlanRequired => Self::new(Exit::NotAuthorized, detail).hint(
                    "the key is valid; the administrator of the server can change the organization's plan",
                ),
                ErrorKind::ScopeRequired => Self::new(Exit::NotAuthorized, detail).hint(
                    "`chlog auth status` shows what the key may do; use a key that may do this, made in \
                     the dashboard under API keys, with `chlog auth login` or CHLOG_API_KEY",
                ),
                ErrorKind::Forbidden => Self::new(Exit::NotAuthorized, detail),
                ErrorKind::NotFound => Self::new(Exit::NotFound, detail),
                ErrorKind::Conflict => Self::new(Exit::Conflict, detail),
                ErrorKind::Invalid if !response.violations().is_empty() => {
                    violations(response.violations())
                }
                ErrorKind::Invalid => Self::new(Exit::Invalid, detail),
                ErrorKind::RateLimited | ErrorKind::Unavailable => {
                    Self::new(Exit::Unavailable, detail)
                }
                _ => Self::new(Exit::Other, error.to_string()),
            },
            Error::Transport(transport) => match transport.kind {
                TransportErrorKind::UntrustedCertificate => {
                    untrusted_certificate(error.to_string())
                }
                TransportErrorKind::WrongProtocol => Self::new(Exit::Other, error.to_string())
                    .hint("correct the URL in CHLOG_URL or --url"),
                TransportErrorKind::Connect => Self::new(Exit::Unavailable, error.to_string())
                    .hint("check the URL, and that the server is running"),
                TransportErrorKind::Disconnected if error.to_string().contains("http://") => {
                    Self::new(Exit::Unavailable, error.to_string())
                        .hint("if the server uses TLS on this port, its URL begins with https://")
                }
                _ => Self::new(Exit::Unavailable, error.to_string()),
            },
            _ if error.is_too_large() => Self::new(Exit::Other, error.to_string())
                .hint("the response is larger than chlog reads; ask for fewer records"),
            Error::UnexpectedResponse(_) => {
                Self::new(Exit::Other, error.to_string()).hint(WRONG_URL)
            }
            _ => Self::new(Exit::Other, error.to_string()),
        };
        failure.request_id = error.request_id().map(Into::into);
        failure.cause = cause;
        failure.unauthorized = (cause == Cause::Unauthorized).then(|| explanation(&error).into());
        failure
    }
}

/// Returns what the server says of an error, or else the error.
fn explanation(error: &Error) -> String {
    let problem = error.problem();
    problem.map_or_else(|| error.to_string(), |problem| problem.detail.clone())
}

/// Returns the failure for a certificate that is not trusted.
fn untrusted_certificate(message: String) -> Failure {
    let failure = Failure::new(Exit::Other, message)
        .hint("SSL_CERT_FILE=FILE trusts the CA certificates in a PEM file");
    match std::env::var_os("SSL_CERT_FILE") {
        Some(path) if !Path::new(&path).is_file() => failure.line(format!(
            "SSL_CERT_FILE names {}, which is not a file",
            Path::new(&path).display()
        )),
        _ => failure,
    }
}

/// Returns what an error means for a change that was to be recorded.
fn cause(error: &Error) -> Cause {
    let response = match error {
        Error::Builder(_) => return Cause::Other,
        Error::UnexpectedResponse(_) => return Cause::UnexpectedResponse,
        // What has no trusted certificate, or does not speak HTTP, is not the server.
        Error::Transport(transport)
            if matches!(
                transport.kind,
                TransportErrorKind::UntrustedCertificate | TransportErrorKind::WrongProtocol
            ) =>
        {
            return Cause::UnexpectedResponse;
        }
        _ => error.response(),
    };
    let Some(response) = response else {
        return Cause::Unavailable;
    };
    if response.status >= 500 || response.status == 429 {
        return Cause::Unavailable;
    }
    match (&response.problem, response.status) {
        // The server refuses a long address or long headers before it can explain it.
        (None, 414 | 431) => Cause::Rejected,
        (None, _) => Cause::UnexpectedResponse,
        // Under this key the server will never accept the change: it is not in its bounds.
        (Some(problem), 403) if problem.code == ProblemCode::OutOfBounds => Cause::Rejected,
        (Some(_), 401 | 403) => Cause::Unauthorized,
        (Some(problem), _) => match problem.code {
            ProblemCode::IdempotencyInProgress | ProblemCode::RequestTimeout => Cause::Unavailable,
            _ => Cause::Rejected,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::ViolationCode;

    fn text(failure: &Failure) -> String {
        let mut out = Vec::new();
        failure
            .write(&mut anstream::StripStream::new(&mut out))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_violation_is_the_error_and_several_are_listed() {
        let mut invalid = Invalid::one(
            "/title",
            ViolationCode::TooShort,
            "must have 3 to 300 characters, got 2",
        );
        assert_eq!(
            text(&invalid.clone().into()),
            "error: title: must have 3 to 300 characters, got 2\n"
        );
        let other = Invalid::one(
            "/tags/3",
            ViolationCode::TooLong,
            "must have 1 to 100 characters, got 101",
        );
        invalid.violations.extend(other.violations);
        assert_eq!(
            text(&invalid.into()),
            "error: 2 values are invalid\n  title: must have 3 to 300 characters, got 2\n  \
             tags/3: must have 1 to 100 characters, got 101\n"
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let failure = Failure::new(Exit::Other, "a\u{1b}[2Jb")
            .line("c\u{7}")
            .hint("d\u{9b}");
        assert_eq!(
            text(&failure),
            "error: a<U+001B>[2Jb\n  c<U+0007>\nhint: d<U+009B>\n"
        );
    }
}
