//! Lists changes.

use std::collections::VecDeque;

use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{Change, ChangeCursor, ChangeFilter, Page};
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::query::ChangeQuery;
use crate::error::{Error, UnexpectedResponse};
use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::transport::Transport;

/// A list of changes, newest first: [`ListChanges::send`] reads one page of it,
/// [`ListChanges::stream`] reads all of it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send` or `stream`"]
pub struct ListChanges<M = Async> {
    sender: Sender<M>,
    query: ChangeQuery,
    page: Option<u64>,
    per_page: Option<u64>,
    before: Option<ChangeCursor>,
}

impl<M: Mode> ListChanges<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            query: ChangeQuery::new(),
            page: None,
            per_page: None,
            before: None,
        }
    }

    /// Sets which changes to list; all by default.
    pub fn matching(mut self, query: ChangeQuery) -> Self {
        self.query = query;
        self
    }

    /// Starts the list after this change, so that it has only older ones: a
    /// [`Change::cursor`], or an id, which means the place where the change is now.
    pub fn before(mut self, change: impl Into<ChangeCursor>) -> Self {
        self.before = Some(change.into());
        self
    }

    /// Sets the number of the page that [`ListChanges::send`] reads; 1 by default.
    pub fn page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// Sets the size of the page that [`ListChanges::send`] reads: 1 to 100; 25
    /// by default.
    pub fn per_page(mut self, count: u64) -> Self {
        self.per_page = Some(count);
        self
    }

    /// Reads one page.
    pub fn send(self) -> M::Response<Page<Change>> {
        let defaults = self.query.into_filter();
        let filter = ChangeFilter {
            page: self.page.unwrap_or(defaults.page),
            per_page: self.per_page.unwrap_or(defaults.per_page),
            before: self.before,
            ..defaults
        };
        self.sender.body(Ok(request(&filter)))
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn mode(&self) -> &M {
        &self.sender.mode
    }

    pub(crate) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Change, Error>> + Send + Unpin + 'static {
        let reader = Reader {
            transport: self.sender.transport,
            filter: ChangeFilter {
                per_page: MAX_PER_PAGE,
                before: self.before,
                ..self.query.into_filter()
            },
            buffer: VecDeque::new(),
            is_last_page: false,
        };
        Box::pin(try_unfold(reader, |mut reader| async move {
            if reader.buffer.is_empty() && !reader.is_last_page {
                reader.read_more().await?;
            }
            Ok(reader.buffer.pop_front().map(|change| (change, reader)))
        }))
    }
}

impl ListChanges {
    /// Reads the whole list, 100 changes with each request. `page` and `per_page`
    /// do not apply.
    ///
    /// Each request continues after the last change that was read, not at a page
    /// number. Changes that are recorded meanwhile, or that move because they are started,
    /// neither repeat nor skip other changes.
    /// The stream ends after an error.
    pub fn stream(self) -> impl Stream<Item = Result<Change, Error>> + Send + Unpin + 'static {
        self.into_stream()
    }
}

fn request(filter: &ChangeFilter) -> ApiRequest {
    ApiRequest::get(&["changes"]).query(filter.to_query())
}

/// The state of a stream of a list.
struct Reader {
    transport: Transport,
    /// `before` is the last change that was read.
    filter: ChangeFilter,
    buffer: VecDeque<Change>,
    is_last_page: bool,
}

impl Reader {
    async fn read_more(&mut self) -> Result<(), Error> {
        let page: Page<Change> = self.transport.send(&request(&self.filter)).await?;
        let last = page.data.last().map(Change::cursor);
        if last.is_some() && last == self.filter.before {
            // A service that ignores `before` would be read without an end.
            return Err(UnexpectedResponse {
                status: 200,
                request_id: None,
                message: "the list does not continue after the change in `before`".to_owned(),
                excerpt: String::new(),
            }
            .into());
        }
        self.is_last_page = (page.data.len() as u64) < page.per_page.max(1);
        self.filter.before = last.or(self.filter.before);
        self.buffer = page.data.into();
        Ok(())
    }
}

into_future!(ListChanges => Page<Change>);
