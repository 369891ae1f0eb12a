-- A change is kept as the JSON that it is answered with, beside the columns
-- that it is found by. Its place in the list is a number made from its id
-- (the milliseconds and the twenty bits after them). ARCHITECTURE.md has the
-- figures.
--
-- What there was before waits in `changes_before` until the service has put it
-- into the new tables, which takes code: see store/carry_over.rs.

DROP TABLE change_tags;
DROP TABLE change_counts;
DROP TABLE change_search;
ALTER TABLE changes RENAME TO changes_before;
ALTER TABLE changes_before RENAME CONSTRAINT changes_pkey TO changes_before_pkey;
DROP INDEX changes_by_service;
DROP INDEX changes_by_host;
DROP INDEX changes_by_risk;
DROP INDEX changes_by_status;

-- What a change shows of its service and its host, as JSON.
ALTER TABLE services ADD COLUMN reference text COLLATE "C" NOT NULL DEFAULT '';
UPDATE services SET reference = json_build_object('id', id, 'name', name, 'color', color);
ALTER TABLE hosts ADD COLUMN reference text COLLATE "C" NOT NULL DEFAULT '';
UPDATE hosts SET reference =
    json_build_object('id', id, 'hostname', hostname, 'environment', environment);

CREATE TABLE changes (
    place           bigint NOT NULL,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    risk_level      text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    service_id      uuid,
    host_id         uuid,
    document        text COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, place),
    FOREIGN KEY (organization_id, service_id) REFERENCES services (organization_id, id),
    FOREIGN KEY (organization_id, host_id) REFERENCES hosts (organization_id, id)
);
CREATE INDEX changes_by_risk ON changes (organization_id, risk_level, place);
CREATE INDEX changes_by_status ON changes (organization_id, status, place);
CREATE INDEX changes_by_risk_and_status ON changes (organization_id, risk_level, status, place);
CREATE INDEX changes_by_service ON changes (organization_id, service_id, place) WHERE service_id IS NOT NULL;
CREATE INDEX changes_by_host ON changes (organization_id, host_id, place) WHERE host_id IS NOT NULL;

CREATE TABLE change_tags (
    organization_id uuid NOT NULL,
    tag             text COLLATE "C" NOT NULL,
    place           bigint NOT NULL,
    PRIMARY KEY (organization_id, tag, place)
);

-- How many changes there are by scope (`organization`, `service/ID`,
-- `host/ID`, `tag/TAG`), span of time, risk and status. `span` is the length of
-- the span in milliseconds and `start` its number since 1970; span 0 is all
-- time. `slot` spreads the writers of one organization.
CREATE TABLE change_counts (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    scope           text COLLATE "C" NOT NULL,
    span            bigint NOT NULL,
    start           bigint NOT NULL,
    risk_level      text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    slot            bigint NOT NULL,
    n               bigint NOT NULL,
    PRIMARY KEY (organization_id, scope, span, start, risk_level, status, slot)
);

-- The words of the titles, and the marks that changes are filtered by (see
-- store/search.rs), each prefixed with its organization, so that a search costs
-- what the organization's own changes cost. Folding and splitting is done by
-- the service.
CREATE TABLE change_search (
    organization_id uuid NOT NULL,
    place           bigint NOT NULL,
    words           tsvector NOT NULL,
    PRIMARY KEY (organization_id, place)
);
CREATE INDEX change_search_by_words ON change_search USING gin (words)
    WITH (gin_pending_list_limit = 256);

-- Half of the hash tells scopes apart just as well.
UPDATE idempotency SET scope = substring(scope FROM 1 FOR 16);

-- What an API key did (the actor is NULL) and what a person did, by the kind of
-- thing; each entry is in one of the two. The last column is so that SQLite sees
-- that the index has all it needs.
DROP INDEX activity_by_actor;
CREATE INDEX activity_by_person ON activity (organization_id, actor_id, resource_type, id)
    WHERE actor_id IS NOT NULL;
CREATE INDEX activity_by_key ON activity (organization_id, resource_type, id, actor_id)
    WHERE actor_id IS NULL;
