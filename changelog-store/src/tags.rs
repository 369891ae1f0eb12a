//! The tags that begin with what was typed.

use super::engine::{end_lease, on};
use super::{Database, StoreError, Tenant};

/// The scopes of tags in `change_counts` begin with this.
const TAG_SCOPE: &str = "tag/";

/// The first count of a scope that lies in a range.
const SELECT_SCOPE: &str = "
SELECT scope FROM change_counts
WHERE organization_id = $1 AND scope >= $2 AND scope < $3
ORDER BY scope LIMIT 1";

impl Database {
    /// Lists at most `limit` tags that begin with `prefix`, in their order. Each costs a
    /// lookup in the counts, however many changes have the tag.
    pub async fn tag_names_from(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut from = format!("{TAG_SCOPE}{prefix}");
        // Comes after every tag that begins so.
        let end = format!("{from}{}", char::MAX);
        let mut reader = self.reader(tenant).await?;
        let mut tags = Vec::new();
        while tags.len() < limit {
            let found: Option<(String,)> = on!(&mut reader, |db| {
                sqlx::query_as(SELECT_SCOPE)
                    .bind(tenant.uuid())
                    .bind(&from)
                    .bind(&end)
                    .fetch_optional(&mut **db)
            })?;
            let Some((scope,)) = found else {
                break;
            };
            tags.extend(scope.strip_prefix(TAG_SCOPE).map(str::to_owned));
            // Nothing lies between a string and the string with this character; NUL
            // would come earlier, which PostgreSQL does not accept and tags cannot have.
            from = scope + "\u{1}";
        }
        end_lease(reader);
        Ok(tags)
    }
}
