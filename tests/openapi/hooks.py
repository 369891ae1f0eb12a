"""What a schema cannot say: which services and hosts exist, which names and idempotency
keys are taken, what time it is, and how members depend on values of others or on the
present state of a change. Everything else that matches the document must be accepted."""

import itertools
import os

import schemathesis
from schemathesis import GenerationMode

SERVICE, OTHER_SERVICE, HOST, CHANGE = os.environ["EXISTING_IDS"].split(",")
PAST = "2026-01-15T08:30:00.000Z"
numbers = itertools.count()


def unique(name):
    return f"{name.strip()[:80]} {next(numbers)}"


def fit_change(change, is_new):
    if change.get("service_id"):
        change["service_id"] = SERVICE
    if change.get("service_ids"):
        change["service_ids"] = [SERVICE, OTHER_SERVICE]
    if change.get("host_id"):
        change["host_id"] = HOST
    if change.get("service_name"):
        change["service_name"] = "payments"
    if change.get("hostname"):
        change["hostname"] = "web-1"
    if change.get("title"):
        change["title"] = unique(change["title"])
    if is_new:
        for name in ("occurred_at", "started_at", "ended_at"):
            if change.get(name):
                change[name] = PAST
        return
    status = change.get("status")
    if change.get("started_at") or change.get("ended_at"):
        for name in ("started_at", "ended_at"):
            if status in ("completed", "rolled_back"):
                change[name] = PAST
            else:
                change.pop(name, None)
    if not status:
        change.pop("outcome", None)
        change.pop("reason", None)


def fit_incident(incident):
    if incident.get("service_id"):
        incident["service_id"] = SERVICE
        incident.pop("service_name", None)
    if incident.get("service_name"):
        incident["service_name"] = "payments"
    for name in ("started_at", "resolved_at"):
        if incident.get(name):
            incident[name] = PAST
    if incident.get("status") != "resolved":
        incident.pop("resolved_at", None)
    else:
        # It may have started after the time at which it would end.
        incident["started_at"] = PAST
    if incident.get("change_id"):
        incident["change_id"] = CHANGE
        incident.pop("none_of_these", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = str(next(numbers))
    query = case.query
    if query:
        # Together they must leave a status.
        choices = [name for name in ("status", "active", "not_status") if name in query]
        for name in choices[1:]:
            del query[name]
        if "not_status" in query:
            query["not_status"] = query["not_status"][:1]
        if "risk_level" in query:
            query.pop("min_risk", None)
        for name in ("q", "text"):
            if isinstance(query.get(name), str):
                # 16 words at most.
                query[name] = query[name][:31]
    body = case.body
    if not isinstance(body, dict):
        return
    path = case.operation.path
    if path.startswith("/api/changes"):
        for change in body.get("changes", [body]):
            fit_change(change, is_new=case.method == "POST")
        return
    if path.startswith("/api/incidents"):
        fit_incident(body)
        return
    itself = (case.path_parameters or {}).get("id")
    for name in ("hostname", "name"):
        if itself in (SERVICE, OTHER_SERVICE, HOST):
            body.pop(name, None)
        elif body.get(name):
            body[name] = unique(body[name])
    if body.get("depends_on"):
        body["depends_on"] = [OTHER_SERVICE if itself == SERVICE else SERVICE]
