// A story of ten calls, with the types that openapi-typescript makes of the document.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { env: Record<string, string>; exitCode: number };

const api = createClient<paths>({
  baseUrl: process.env.CHLOG_URL,
  headers: { "x-api-key": process.env.CHLOG_API_KEY },
});

function expect(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

const service = await api.POST("/api/services", { body: { name: "ts-payments" } });
expect(service.data !== undefined, "1: a service");
const host = await api.POST("/api/hosts", {
  body: { hostname: "ts-web-1", environment: "prod", ip_address: "192.0.2.10", roles: ["web"] },
});
expect(host.data?.data.environment === "prod", "2: a host");

const serviceId = service.data.data.id;
const change = await api.POST("/api/changes", {
  body: {
    title: "Deploy from TypeScript",
    status: "in_progress",
    risk_level: "high",
    service_ids: [serviceId],
    host_id: host.data.data.id,
    agent: { name: "deployer", mode: "autonomous" },
    links: [{ label: "pipeline", url: "https://ci.example.com/runs/42" }],
  },
  params: { header: { "Idempotency-Key": "typescript-1" } },
});
expect(change.data !== undefined && change.response.status === 201, "3: a change");
const id = change.data.data.id;

const list = await api.GET("/api/changes", {
  params: { query: { status: ["in_progress", "completed"], service_id: serviceId, per_page: 10 } },
});
expect(list.data?.count === 1 && list.data.data[0]?.id === id, "4: the list");

const path = { id };
const found = await api.GET("/api/changes/{id}", { params: { path } });
expect(found.data?.data.agent?.mode === "autonomous", "5: the change");

const patched = await api.PATCH("/api/changes/{id}", {
  params: { path },
  body: { status: "completed", outcome: "succeeded", agent: { name: "deployer", mode: null } },
});
expect(patched.data?.data.outcome === "succeeded", "6: the outcome");
expect(patched.data.data.agent?.mode === null, "6: no mode");

const around = await api.GET("/api/changes/around", { params: { query: { service_id: serviceId } } });
expect(around.data?.data[0]?.change.id === id, "7: around");

const history = await api.GET("/api/changes/{id}/history", { params: { path } });
expect(history.data?.data.entries.length === 2, "8: the history");

// @ts-expect-error: an unknown risk level does not compile.
const refused = await api.POST("/api/changes", { body: { title: "no", risk_level: "huge" } });
expect(refused.error?.code === "validation_failed", "9: 422");
expect(refused.error.errors?.length === 2, "9: both problems");

const missing = await api.GET("/api/changes/{id}", { params: { path: { id: serviceId } } });
expect(missing.response.status === 404 && missing.error?.code === "not_found", "10: 404");

console.log("10 calls");
