-- What the dashboard reads: what is planned next, charts by day, who is invited,
-- where somebody is signed in, who made a key, from where something was done, and
-- what became of one thing.

ALTER TABLE sessions ADD COLUMN user_agent TEXT;
ALTER TABLE api_keys ADD COLUMN created_by TEXT;
-- An IP address, as text.
ALTER TABLE activity ADD COLUMN address TEXT;

-- The moment stands in the document as RFC 3339 in UTC with milliseconds. A
-- quote within a text of the document has a backslash, so that what is looked
-- for can only be the field.
ALTER TABLE changes ADD COLUMN scheduled_for INTEGER;
UPDATE changes SET scheduled_for =
    unixepoch(substr(json_extract(document, '$.scheduled_for'), 1, 19)) * 1000
        + CAST(substr(json_extract(document, '$.scheduled_for'), 21, 3) AS INTEGER)
WHERE document LIKE '%"scheduled_for":"%';
CREATE INDEX changes_by_schedule ON changes (organization_id, scheduled_for)
    WHERE scheduled_for IS NOT NULL AND status = 'planned';

-- Services and hosts are counted by day too, under a span of their own,
-- -86400000: PostgreSQL guesses how many rows have a scope and a span as if one
-- had nothing to do with the other, and were there so many more rows of the span
-- 86400000, it would take the organization's few days for half of the table.
INSERT INTO change_counts (organization_id, scope, span, start, risk_level, status, slot, n)
SELECT organization_id, 'service/' || lower(hex(service_id)), -86400000,
    (place >> 20) / 86400000, risk_level, status, 0, count(*)
FROM changes WHERE service_id IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6;
INSERT INTO change_counts (organization_id, scope, span, start, risk_level, status, slot, n)
SELECT organization_id, 'host/' || lower(hex(host_id)), -86400000,
    (place >> 20) / 86400000, risk_level, status, 0, count(*)
FROM changes WHERE host_id IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6;
-- The days of services, whichever. A range of scopes would do as well, but then
-- SQLite would take the primary key instead, and walk the days of all years.
CREATE INDEX change_counts_by_day ON change_counts (organization_id, span, start, scope)
    WHERE span = -86400000 AND substr(scope, 1, 8) = 'service/';

-- Who may join, until they do, the invitation is withdrawn, or it expires. Of
-- the link only the SHA-256 of its token is kept.
CREATE TABLE invitations (
    organization_id BLOB NOT NULL REFERENCES organizations (id),
    id              BLOB NOT NULL,
    email           TEXT NOT NULL,
    email_folded    TEXT NOT NULL,
    role            TEXT NOT NULL,
    token_hash      BLOB NOT NULL UNIQUE,
    invited_by      TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, email_folded)
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- What became of one thing. What created it is found by the time in its id, so
-- that creating anything writes to no further index. The last column is so that
-- SQLite sees that the index has all it needs to find the entries.
CREATE INDEX activity_by_thing ON activity
    (organization_id, resource_id, resource_type, id, action)
    WHERE action <> 'created';

-- The latest moment that any server has seen, in one row: a clock that is set
-- back while no server runs must not revive what has expired.
CREATE TABLE latest_moment (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    moment INTEGER NOT NULL
) STRICT;
