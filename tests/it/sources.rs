//! Sources: what other systems send, through real HTTP, as changes.

mod floods;
mod receiving;
