//! Keeps annotations as Grafana does, in both forms of its API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Answer, Received, Receiver};

/// The annotations of a Grafana for the token `glsa_test`.
#[derive(Clone, Default)]
pub struct Grafana(Arc<Mutex<Annotations>>);

#[derive(Default)]
struct Annotations {
    by_name: BTreeMap<String, Value>,
    last_id: u64,
}

impl Grafana {
    /// Lets a receiver answer as `/api/annotations`.
    pub fn serve(receiver: &Receiver) -> Self {
        let grafana = Self::default();
        let shared = grafana.clone();
        receiver.answer_by(move |request| shared.answer(request, Self::annotations));
        grafana
    }

    /// Lets a receiver answer as `annotation.grafana.app`, for the namespace `default`.
    pub fn serve_resources(receiver: &Receiver) -> Self {
        let grafana = Self::default();
        let shared = grafana.clone();
        receiver.answer_by(move |request| shared.answer(request, Self::resources));
        grafana
    }

    /// Returns the annotations by their ids or names.
    pub fn all(&self) -> BTreeMap<String, Value> {
        self.lock(|annotations| annotations.by_name.clone())
    }

    /// Deletes all annotations, as people may do it.
    pub fn clear(&self) {
        self.lock(|annotations| annotations.by_name.clear());
    }

    fn lock<T>(&self, read: impl FnOnce(&mut Annotations) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(
        &self,
        request: &Received,
        form: fn(&mut Annotations, &Received) -> Answer,
    ) -> Answer {
        if request.header("authorization") != "Bearer glsa_test" {
            return Answer::json(401, &json!({ "message": "Invalid API key" }));
        }
        self.lock(|annotations| form(annotations, request))
    }

    fn annotations(all: &mut Annotations, request: &Received) -> Answer {
        let missing = Answer::json(404, &json!({ "message": "Annotation not found" }));
        let id = request.path.strip_prefix("/api/annotations");
        let Some(id) = id.map(|id| id.trim_start_matches('/').to_owned()) else {
            return missing;
        };
        match request.method.as_str() {
            "POST" if id.is_empty() => {
                let annotation = request.json();
                if let Err(error) = check(&annotation) {
                    return Answer::json(400, &json!({ "message": error }));
                }
                all.last_id += 1;
                all.by_name.insert(all.last_id.to_string(), annotation);
                let id = all.last_id;
                Answer::json(200, &json!({ "message": "Annotation added", "id": id }))
            }
            "PATCH" => {
                let Some(annotation) = all.by_name.get_mut(&id) else {
                    return missing;
                };
                for (name, value) in request.json().as_object().into_iter().flatten() {
                    annotation[name.as_str()] = value.clone();
                }
                match check(annotation) {
                    Ok(()) => Answer::json(200, &json!({ "message": "Annotation patched" })),
                    Err(error) => Answer::json(400, &json!({ "message": error })),
                }
            }
            "DELETE" => match all.by_name.remove(&id) {
                Some(_) => Answer::json(200, &json!({ "message": "Annotation deleted" })),
                None => missing,
            },
            _ => Answer::status(405),
        }
    }

    fn resources(all: &mut Annotations, request: &Received) -> Answer {
        const PATH: &str = "/apis/annotation.grafana.app/v0alpha1/namespaces/default/annotations";
        let missing = Answer::json(404, &json!({ "reason": "NotFound", "code": 404 }));
        let Some(name) = request.path.strip_prefix(PATH) else {
            return missing;
        };
        let name = name.trim_start_matches('/').to_owned();
        let versioned = |mut resource: Value, version: u64| {
            resource["metadata"]["resourceVersion"] = version.to_string().into();
            resource
        };
        let is_valid = |resource: &Value| {
            resource["kind"] == "Annotation"
                && resource["apiVersion"] == "annotation.grafana.app/v0alpha1"
                && check(&resource["spec"]).is_ok()
        };
        match request.method.as_str() {
            "POST" if name.is_empty() => {
                let resource = request.json();
                let name = resource["metadata"]["name"].as_str().unwrap_or_default();
                if !is_valid(&resource) || name.is_empty() {
                    return Answer::json(422, &json!({ "reason": "Invalid", "code": 422 }));
                }
                if all.by_name.contains_key(name) {
                    return Answer::json(409, &json!({ "reason": "AlreadyExists", "code": 409 }));
                }
                all.last_id += 1;
                let resource = versioned(resource.clone(), all.last_id);
                all.by_name.insert(name.to_owned(), resource.clone());
                Answer::json(201, &resource)
            }
            "GET" => match all.by_name.get(&name) {
                Some(resource) => Answer::json(200, resource),
                None => missing,
            },
            "PUT" => {
                let resource = request.json();
                let Some(present) = all.by_name.get(&name) else {
                    return missing;
                };
                let version = |resource: &Value| resource["metadata"]["resourceVersion"].clone();
                if version(present) != version(&resource) {
                    return Answer::json(409, &json!({ "reason": "Conflict", "code": 409 }));
                }
                if !is_valid(&resource) {
                    return Answer::json(422, &json!({ "reason": "Invalid", "code": 422 }));
                }
                all.last_id += 1;
                let resource = versioned(resource, all.last_id);
                all.by_name.insert(name, resource.clone());
                Answer::json(200, &resource)
            }
            "DELETE" => match all.by_name.remove(&name) {
                Some(_) => Answer::json(200, &json!({ "status": "Success" })),
                None => missing,
            },
            _ => Answer::status(405),
        }
    }
}

/// Checks an annotation.
fn check(annotation: &Value) -> Result<(), String> {
    let time = annotation["time"].as_i64().ok_or("no time")?;
    if let Some(end) = annotation.get("timeEnd") {
        let now = chrono::Utc::now().timestamp_millis();
        let end = end.as_i64().ok_or("timeEnd is not a number")?;
        if end < time || end > now {
            return Err(format!("timeEnd is {end}, time {time}, now {now}"));
        }
    }
    if annotation["text"].as_str().is_none_or(str::is_empty) {
        return Err("no text".to_owned());
    }
    let tags = annotation["tags"].as_array().ok_or("no tags")?;
    if tags.len() > 8 || !tags.iter().all(Value::is_string) {
        return Err(format!("{} tags", tags.len()));
    }
    Ok(())
}
