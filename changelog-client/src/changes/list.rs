//! Lists changes.

use std::collections::VecDeque;

use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{Change, ChangeCursor, Page};
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::query::{ChangeQuery, ListPage};
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
    page: ListPage,
}

impl<M: Mode> ListChanges<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            query: ChangeQuery::new(),
            page: ListPage::default(),
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
        self.page.before = Some(change.into());
        self
    }

    /// Sets the number of the page that [`ListChanges::send`] reads; 1 by default.
    pub fn page(mut self, page: u64) -> Self {
        self.page.number = Some(page);
        self
    }

    /// Sets the size of the page that [`ListChanges::send`] reads: 1 to 100; 25
    /// by default.
    pub fn per_page(mut self, count: u64) -> Self {
        self.page.size = Some(count);
        self
    }

    /// Reads one page.
    pub fn send(self) -> M::Response<Page<Change>> {
        self.sender.body(Ok(request(&self.query, &self.page)))
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
            query: self.query,
            page: ListPage {
                number: None,
                size: Some(MAX_PER_PAGE),
                before: self.page.before,
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
    /// Reads the whole list, 100 changes with each request, or fewer if they are larger than a
    /// response may be. `page` and `per_page` do not apply.
    ///
    /// Each request continues after the last change that was read, not at a page
    /// number. Changes that are recorded meanwhile, or that move because they are started,
    /// neither repeat nor skip other changes.
    /// The stream ends after an error.
    pub fn stream(self) -> impl Stream<Item = Result<Change, Error>> + Send + Unpin + 'static {
        self.into_stream()
    }
}

fn request(query: &ChangeQuery, page: &ListPage) -> ApiRequest {
    ApiRequest::get(&["changes"]).query(query.list_query(page))
}

/// The state of a stream of a list.
struct Reader {
    transport: Transport,
    query: ChangeQuery,
    /// `before` is the last change that was read.
    page: ListPage,
    buffer: VecDeque<Change>,
    is_last_page: bool,
}

impl Reader {
    /// Reads the next page, with fewer changes if they are too large for one response.
    async fn read_page(&mut self) -> Result<Page<Change>, Error> {
        loop {
            let request = request(&self.query, &self.page);
            match (self.transport.send(&request).await, &mut self.page.size) {
                (Err(error), Some(size)) if error.is_too_large() && *size > 1 => *size /= 2,
                (page, _) => return page,
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), Error> {
        let page = self.read_page().await?;
        let last = page.data.last().map(Change::cursor);
        if last.is_some() && last == self.page.before {
            // A service that ignores `before` would be read without an end.
            return Err(UnexpectedResponse::of_repeated_page("before").into());
        }
        self.is_last_page = (page.data.len() as u64) < page.per_page.max(1);
        self.page.before = last.or(self.page.before);
        self.buffer = page.data.into();
        Ok(())
    }
}

into_future!(ListChanges => Page<Change>);
