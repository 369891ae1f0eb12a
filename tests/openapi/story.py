"""A story of ten calls, with the client that openapi-python-client makes of the document."""

import os
import sys

sys.path.insert(0, sys.argv[1])

from client import AuthenticatedClient
from client.api.changes import (
    change_history,
    changes_around,
    create_change,
    get_change,
    list_changes,
    update_change,
)
from client.api.hosts import create_host
from client.api.services import create_service
from client.models import (
    AgentMode,
    ChangePatch,
    Environment,
    NewAgent,
    NewChange,
    NewHost,
    NewLink,
    NewService,
    Outcome,
    Problem,
    ProblemCode,
    RiskLevel,
    Status,
)

api = AuthenticatedClient(
    base_url=os.environ["CHLOG_URL"],
    token=os.environ["CHLOG_API_KEY"],
    auth_header_name="x-api-key",
    prefix="",
)

service = create_service.sync(client=api, body=NewService(name="py-payments")).data
host = create_host.sync(
    client=api,
    body=NewHost(hostname="py-web-1", environment=Environment.PROD, ip_address="192.0.2.10", roles=["web"]),
).data
assert host.environment == Environment.PROD, host

change = create_change.sync_detailed(
    client=api,
    idempotency_key="python-1",
    body=NewChange(
        title="Deploy from Python",
        status=Status.IN_PROGRESS,
        risk_level=RiskLevel.HIGH,
        service_ids=[service.id],
        host_id=host.id,
        agent=NewAgent(name="deployer", mode=AgentMode.AUTONOMOUS),
        links=[NewLink(label="pipeline", url="https://ci.example.com/runs/42")],
    ),
)
assert change.status_code == 201, change
change = change.parsed.data

page = list_changes.sync(
    client=api, status=[Status.IN_PROGRESS, Status.COMPLETED], service_id=service.id, per_page=10
)
assert page.count == 1 and page.data[0].id == change.id, page

found = get_change.sync(change.id, client=api).data
assert found.agent.mode == AgentMode.AUTONOMOUS and found.created_at.tzinfo is not None, found

patch = ChangePatch(
    status=Status.COMPLETED, outcome=Outcome.SUCCEEDED, agent=NewAgent(name="deployer", mode=None)
)
patched = update_change.sync(change.id, client=api, body=patch).data
assert patched.outcome == Outcome.SUCCEEDED and patched.agent.mode is None, patched

around = changes_around.sync(client=api, service_id=service.id)
assert around.data[0].change.id == change.id, around

history = change_history.sync(change.id, client=api).data
assert len(history.entries) == 2, history

refused = create_change.sync(client=api, body=NewChange(title="no"))
assert isinstance(refused, Problem) and refused.code == ProblemCode.VALIDATION_FAILED, refused

missing = get_change.sync(service.id, client=api)
assert isinstance(missing, Problem) and missing.code == ProblemCode.NOT_FOUND, missing

print("10 calls")
