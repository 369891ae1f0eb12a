//! What a form showed when it was opened, so that saving it sends only what the person
//! changed: meanwhile, others may have updated the other fields.

use std::fmt::Write;

use changelog_core::list;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::form::{Field, FieldKind, Form};
use super::format;
use super::zone::Zone;

/// The field with the hashes of the values that the form showed, as `name=hash`,
/// separated by spaces.
pub(crate) const SHOWN: &str = "shown";

impl Form {
    /// Adds the hashes of the present values of the fields.
    pub(crate) fn remembering(mut self, fields: &[Field]) -> Self {
        let (zone, mut shown) = (self.zone(), String::new());
        for field in fields {
            let hash = hash(field, self.value(field.name), zone);
            // Writing to a string cannot fail.
            let _ = write!(shown, "{}={hash} ", field.name);
        }
        self.set(SHOWN, shown);
        self
    }

    /// Returns the form without the fields that have the value that the form showed.
    pub(crate) fn without_unchanged(&self, fields: &[Field]) -> Self {
        let (zone, mut changed) = (self.zone(), self.with_unchecked(fields));
        for field in fields {
            let now = hash(field, self.value(field.name), zone);
            if self.shown(field) == Some(&now) {
                changed.remove(field.name);
            }
        }
        changed
    }

    /// Returns the form with boxes that it showed and that were not sent, which says that they
    /// are not checked.
    fn with_unchecked(&self, fields: &[Field]) -> Self {
        let mut form = self.clone();
        for field in fields.iter().filter(|field| field.is_sent_only_checked()) {
            if !self.has(field.name) && self.shown(field).is_some() {
                form.set(field.name, String::new());
            }
        }
        form
    }
}

impl Form {
    /// Returns the form with its changes, and with the present values of all other fields:
    /// to save it replaces nothing that others have changed since it was shown. `present` is a
    /// form with the present values. A form that does not know what it showed stays as it is.
    ///
    /// # Errors
    /// If others have changed the same fields: the form to show again, with why. To send that
    /// one replaces the values of others.
    pub(crate) fn over(&self, present: &Self, fields: &[Field]) -> Result<Self, Self> {
        if !self.has(SHOWN) {
            return Ok(self.clone());
        }
        let mut merged = self.without_unchanged(fields);
        merged.remove(SHOWN);
        merged.show_times(fields, present.zone());
        let mut merged = merged.with_missing(present.clone());
        for field in self.overtaken(present, fields) {
            let now = format::visible(&format::excerpt(present.value(field.name)));
            let now = if now.is_empty() {
                "nothing".to_owned()
            } else {
                format!("\u{201c}{now}\u{201d}")
            };
            let message = format!(
                "was changed to {now} since you opened this page; save again to replace that"
            );
            merged = merged.refuse_field(field.name, message);
        }
        if merged.is_refused() {
            Err(merged)
        } else {
            Ok(merged)
        }
    }

    /// Writes times as browsers show them in fields, in a zone: a button sends them in
    /// RFC 3339.
    fn show_times(&mut self, fields: &[Field], zone: Zone) {
        let own = self.zone();
        let is_time = |field: &&Field| matches!(field.kind, FieldKind::Time);
        for field in fields.iter().filter(is_time) {
            if let Ok(at) = own.parse_field(self.value(field.name).trim()).parse() {
                self.set(field.name, zone.exact_field(&at));
            }
        }
    }

    /// Returns the fields that this form changes and that others have changed since it was
    /// shown, to another value.
    fn overtaken<'f>(&self, present: &Self, fields: &'f [Field]) -> Vec<&'f Field> {
        let zone = self.zone();
        let is_overtaken = |field: &&Field| {
            let (Some(shown), Some(now)) = (self.shown(field), present.shown(field)) else {
                return false;
            };
            let own = hash(field, self.value(field.name), zone);
            let is_given = self.has(field.name) || field.is_sent_only_checked();
            is_given && own != shown && shown != now && own != now
        };
        fields.iter().filter(is_overtaken).collect()
    }

    /// Returns the hash of the value that a field was shown with.
    fn shown(&self, field: &Field) -> Option<&str> {
        let mut pairs = self.value(SHOWN).split(' ');
        pairs.find_map(|pair| pair.strip_prefix(field.name)?.strip_prefix('='))
    }
}

/// Returns a hash of the JSON of a value: browsers write times and line breaks
/// differently, and boxes have an order of their own.
fn hash(field: &Field, value: &str, zone: Zone) -> String {
    let json = match field.kind {
        FieldKind::Boxes => {
            let mut words = list::parse(value);
            words.sort();
            Value::from(words)
        }
        kind => kind.to_json(value, zone),
    };
    hex::encode(&Sha256::digest(json.to_string())[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_values_are_left() {
        let fields = [
            Field::new("title", FieldKind::Required, ""),
            Field::new("description", FieldKind::LongText, ""),
            Field::new("ended_at", FieldKind::Time, ""),
            Field::new("tags", FieldKind::List, ""),
        ];
        let shown = Form::with_values([
            ("title", "Deploy".to_owned()),
            ("description", "a\nb".to_owned()),
            ("ended_at", "2026-11-22T10:00:00".to_owned()),
            ("tags", "a, b".to_owned()),
        ]);
        let shown = shown.remembering(&fields);
        let mut sent = shown.clone();
        // As a browser sends the same values.
        sent.set("description", "a\r\nb".to_owned());
        sent.set("ended_at", "2026-11-22T10:00".to_owned());
        let left = sent.without_unchanged(&fields);
        assert!(fields.iter().all(|field| !left.has(field.name)), "{left:?}");
        sent.set("tags", String::new());
        sent.set("title", "Deployed".to_owned());
        let left = sent.without_unchanged(&fields);
        let names = fields.map(|field| left.has(field.name));
        assert_eq!(names, [true, false, false, true]);
        // A form that does not know what it showed sends everything.
        sent.remove(SHOWN);
        let left = sent.without_unchanged(&fields);
        assert!(fields.iter().all(|field| left.has(field.name)));
    }

    #[test]
    fn times_are_shown_in_the_zone_of_the_form() {
        let fields = [
            Field::new("title", FieldKind::Required, ""),
            Field::new("ended_at", FieldKind::Time, ""),
        ];
        let shown = |title: &str, ended_at: &str| {
            Form::with_values([
                ("title", title.to_owned()),
                ("ended_at", ended_at.to_owned()),
                ("time_zone", "Europe/Berlin".to_owned()),
            ])
            .remembering(&fields)
        };
        // A button names no zone.
        let mut sent = shown("a", "2026-11-26T11:00:00");
        sent.remove("time_zone");
        sent.set("ended_at", "2026-11-26T10:30:00.250Z".to_owned());
        let present = shown("b", "2026-11-26T12:00:00");
        let refused = sent.over(&present, &fields).expect_err("a conflict");
        assert_eq!(refused.value("ended_at"), "2026-11-26T11:30:00.250");
        assert_eq!(refused.value("time_zone"), "Europe/Berlin");
    }

    #[test]
    fn boxes_that_are_not_sent_are_unchecked() {
        let fields = [
            Field::new("service", FieldKind::Optional, ""),
            Field::new("create", FieldKind::Checkbox, ""),
            Field::new("scopes", FieldKind::Boxes, ""),
        ];
        let shown = |service: &str, scopes: &str| {
            Form::with_values([
                ("service", service.to_owned()),
                ("create", "true".to_owned()),
                ("scopes", scopes.to_owned()),
            ])
            .remembering(&fields)
        };
        let mut sent = shown("a", "read,record");
        // The order of the boxes is that of the form.
        sent.set("scopes", "record,read".to_owned());
        assert!(!sent.without_unchanged(&fields).has("scopes"));
        sent.remove("create");
        assert!(sent.without_unchanged(&fields).has("create"));
        // The others keep what they have now.
        let merged = sent
            .over(&shown("c", "admin"), &fields)
            .expect("no conflict");
        assert_eq!((merged.value("service"), merged.value("create")), ("c", ""));
        assert_eq!(merged.value("scopes"), "admin");
        // A conflict about another field keeps them unchecked.
        sent.set("service", "b".to_owned());
        let refused = sent.over(&shown("c", "read,record"), &fields);
        let refused = refused.expect_err("a conflict");
        assert_eq!(refused.value("create"), "");
        assert!(refused.has("create") && refused.is_chosen("scopes", "read"));
        // So does one about them.
        sent.remove("scopes");
        let refused = sent.over(&shown("b", "admin"), &fields);
        assert!(refused.expect_err("a conflict").has_errors("scopes"));
    }
}
