//! Forms that may be sent once: reloading the page that shows a new secret must not create
//! another one. A form has the id of what it will create as the hidden field `new_id`.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::form::Form;
use crate::store::new_id;

/// Returns the id in a form, or another one if it has none.
pub(crate) fn id_in(form: &Form, now: DateTime<Utc>) -> Uuid {
    let sent = form.value("new_id").parse().ok();
    sent.filter(|id: &Uuid| id.get_version_num() == 7)
        .unwrap_or_else(|| new_id(now))
}
