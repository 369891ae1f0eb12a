//! The endpoints for services and hosts: what both have in common.

use std::marker::PhantomData;

use changelog_core::Named;
use changelog_core::limits::MAX_ITEMS_PER_PAGE;
use changelog_core::query::Pairs;

use crate::error::{Error, ErrorKind, UnexpectedResponse};
use crate::mode::{Async, Mode, ResponseFuture, Sender};
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for services or hosts; see [`Client::services`](crate::Client::services)
/// and [`Client::hosts`](crate::Client::hosts).
#[derive(Clone, Debug)]
pub struct Catalog<T, M = Async> {
    sender: Sender<M>,
    of: PhantomData<T>,
}

impl<T: Named, M: Mode> Catalog<T, M> {
    pub(crate) fn new(sender: Sender<M>) -> Self {
        let of = PhantomData;
        Self { sender, of }
    }

    /// Prepares to create a service or host with a name of at most 100 characters, unique
    /// regardless of ASCII case. Names of services have at least 2 characters.
    pub fn create(&self, name: impl Into<String>) -> CreateItem<T, M> {
        self.create_from(T::named(name.into()))
    }

    /// Prepares to create a service or host from its fields.
    pub fn create_from(&self, new: T::New) -> CreateItem<T, M> {
        CreateItem {
            sender: self.sender.clone(),
            new,
            idempotency_key: None,
        }
    }

    /// Lists all of the organization, sorted by name: up to
    /// [`MAX_ITEMS_PER_PAGE`](crate::limits::MAX_ITEMS_PER_PAGE) with each request.
    pub fn list(&self) -> M::Response<Vec<T>> {
        self.sender.run(|transport| async move {
            let mut pages = Pages::new(&transport);
            let mut all = Vec::new();
            while let Some(page) = pages.next().await? {
                all.extend(page);
            }
            Ok(all)
        })
    }

    /// Gets one.
    pub fn get(&self, id: T::Id) -> M::Response<T> {
        let request = ApiRequest::get(&[T::PLURAL, &id.to_string()]);
        self.sender.data(Ok(request))
    }

    /// Finds one by its name, regardless of ASCII case, in the list of all.
    pub fn find(&self, name: impl Into<String>) -> M::Response<Option<T>> {
        let name = name.into();
        self.sender
            .run(|transport| async move { find(&transport, &name).await })
    }

    /// Finds one by its name, regardless of ASCII case, and creates it if it does not exist.
    pub fn ensure(&self, name: impl Into<String>) -> M::Response<T> {
        let name = name.into();
        self.sender.run(|transport| async move {
            if let Some(found) = find(&transport, &name).await? {
                return Ok(found);
            }
            let request = ApiRequest::create(&[T::PLURAL], &T::named(name.clone()), None)?;
            match transport.send_for_data(&request).await {
                // Another client has created it meanwhile.
                Err(error) if error.kind() == Some(ErrorKind::Conflict) => {
                    find(&transport, &name).await?.ok_or(error)
                }
                created => created,
            }
        })
    }

    /// Prepares to update one.
    pub fn update(&self, id: T::Id) -> UpdateItem<T, M> {
        self.update_with(id, T::Patch::default())
    }

    /// Prepares to update one with a patch.
    pub fn update_with(&self, id: T::Id, patch: T::Patch) -> UpdateItem<T, M> {
        UpdateItem {
            sender: self.sender.clone(),
            id,
            patch,
        }
    }
}

async fn find<T: Named>(transport: &Transport, name: &str) -> Result<Option<T>, Error> {
    let mut pages = Pages::<T>::new(transport);
    while let Some(page) = pages.next().await? {
        let mut page = page.into_iter();
        let found = page.find(|one| one.name().eq_ignore_ascii_case(name.trim()));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The list of all, which may be larger than one response may be, page by page.
struct Pages<'a, T> {
    transport: &'a Transport,
    limit: u64,
    /// The name of the last one that was read.
    after: Option<String>,
    is_complete: bool,
    of: PhantomData<T>,
}

impl<'a, T: Named> Pages<'a, T> {
    fn new(transport: &'a Transport) -> Self {
        Self {
            transport,
            limit: MAX_ITEMS_PER_PAGE,
            after: None,
            is_complete: false,
            of: PhantomData,
        }
    }

    fn request(&self) -> ApiRequest {
        let mut query = Pairs::default();
        query.push("limit", self.limit);
        query.push_some("after", self.after.as_ref());
        ApiRequest::get(&[T::PLURAL]).query(query.finish())
    }

    /// Reads the next page; `None` after the last one.
    async fn next(&mut self) -> Result<Option<Vec<T>>, Error> {
        while !self.is_complete {
            let page: Vec<T> = match self.transport.send_for_data(&self.request()).await {
                Err(error) if error.is_too_large() && self.limit > 1 => {
                    self.limit /= 2;
                    continue;
                }
                page => page?,
            };
            let last = page.last().map(|one| one.name().to_owned());
            if last.is_some() && last == self.after {
                return Err(UnexpectedResponse::of_repeated_page("after").into());
            }
            self.is_complete = page.len() as u64 != self.limit;
            self.after = last;
            return Ok(Some(page));
        }
        Ok(None)
    }
}

/// A service or host to create; nothing is sent until [`CreateItem::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateItem<T: Named, M = Async> {
    sender: Sender<M>,
    pub(crate) new: T::New,
    idempotency_key: Option<String>,
}

impl<T: Named, M: Mode> CreateItem<T, M> {
    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a new one
    /// by default.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates it.
    pub fn send(self) -> M::Response<T> {
        let request = ApiRequest::create(&[T::PLURAL], &self.new, self.idempotency_key);
        self.sender.data(request)
    }
}

/// An update of a service or host; nothing is sent until [`UpdateItem::send`]. Fields that are
/// not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateItem<T: Named, M = Async> {
    sender: Sender<M>,
    id: T::Id,
    pub(crate) patch: T::Patch,
}

impl<T: Named, M: Mode> UpdateItem<T, M> {
    /// Updates it, and returns it with its new values.
    pub fn send(self) -> M::Response<T> {
        let path = [T::PLURAL, &self.id.to_string()];
        self.sender.data(ApiRequest::update(&path, &self.patch))
    }
}

impl<T: Named> IntoFuture for CreateItem<T> {
    type Output = Result<T, Error>;
    type IntoFuture = ResponseFuture<T>;

    fn into_future(self) -> ResponseFuture<T> {
        self.send()
    }
}

impl<T: Named> IntoFuture for UpdateItem<T> {
    type Output = Result<T, Error>;
    type IntoFuture = ResponseFuture<T>;

    fn into_future(self) -> ResponseFuture<T> {
        self.send()
    }
}
