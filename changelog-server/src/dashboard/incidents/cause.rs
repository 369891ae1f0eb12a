//! Marking the cause of an incident.

use changelog_core::{CauseInput, IncidentId};

use super::detail;
use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::page;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::store::StoreError;
use crate::web::{ApiResult, Request};

/// The field with the id of the change.
const CHANGE: &str = "change_id";

static FIELDS: [Field; 2] = [
    Field::new(CHANGE, FieldKind::Optional, "Change"),
    Field::new("none_of_these", FieldKind::Checkbox, "None of these"),
];

/// `POST /incidents/ID/cause`
pub(in crate::dashboard) async fn mark(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Incidents).await?;
    let id: IncidentId = request.id()?;
    let form = request.form().await?;
    match save(&app, &viewer, id, &form).await {
        Ok(()) => Ok(page::see_other(&format!("/incidents/{id}"))),
        Err(StoreError::Invalid(invalid)) => {
            let form = form.refuse(&invalid);
            Box::pin(detail::show(&app, &request, &viewer, id, form)).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn save(app: &App, viewer: &Viewer, id: IncidentId, form: &Form) -> Result<(), StoreError> {
    let mut sent = form.clone();
    if form.has(CHANGE) {
        sent.set(CHANGE, id_of_page(form.value(CHANGE)).to_owned());
    }
    let input: CauseInput = sent.patch(&FIELDS, app.now().into()).await?;
    let tenant = viewer.tenant();
    let mut tx = app.store.begin_for(tenant).await?;
    tx.mark_cause(tenant, &viewer.actor(), id, input, &app.clock)
        .await?;
    tx.commit().await
}

/// Returns the id at the end of the address of a page; what is no address stays as it is.
fn id_of_page(given: &str) -> &str {
    let given = given.trim();
    let path = given.split(['?', '#']).next().unwrap_or(given);
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(given, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::id_of_page;

    #[test]
    fn addresses_of_pages_end_with_the_id() {
        for (given, expected) in [
            ("018f", "018f"),
            (" https://changes.example.com/changes/018f ", "018f"),
            ("/changes/018f/?a=b/c#d", "018f"),
            ("", ""),
        ] {
            assert_eq!(id_of_page(given), expected, "{given}");
        }
    }
}
