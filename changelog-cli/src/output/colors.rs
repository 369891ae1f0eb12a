//! The colors of risk levels, statuses and severities.

use anstyle::AnsiColor;
use changelog_core::{RiskLevel, Severity, Status};
use comfy_table::Color;

use crate::base::text::one_line;

pub(super) fn risk_color(risk: &RiskLevel) -> Color {
    match risk {
        RiskLevel::Low => Color::DarkGreen,
        RiskLevel::Medium => Color::DarkYellow,
        RiskLevel::High => Color::DarkRed,
        _ => Color::Reset,
    }
}

pub(super) fn status_color(status: &Status) -> Color {
    match status {
        Status::Planned => Color::DarkBlue,
        Status::InProgress => Color::DarkCyan,
        Status::Completed => Color::DarkGreen,
        Status::RolledBack => Color::DarkRed,
        _ => Color::Reset,
    }
}

pub(super) fn severity_color(severity: &Severity) -> Color {
    match severity {
        Severity::Critical => Color::DarkRed,
        Severity::Warning => Color::DarkYellow,
        _ => Color::Reset,
    }
}

/// Colors a word as the tables do.
pub(super) fn colored(word: &str, color: Color) -> String {
    let color = match color {
        Color::DarkGreen => AnsiColor::Green,
        Color::DarkYellow => AnsiColor::Yellow,
        Color::DarkRed => AnsiColor::Red,
        Color::DarkBlue => AnsiColor::Blue,
        Color::DarkCyan => AnsiColor::Cyan,
        _ => return one_line(word),
    };
    let style = color.on_default();
    format!("{style}{}{style:#}", one_line(word))
}
