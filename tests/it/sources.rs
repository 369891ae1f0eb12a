//! Sources: what other systems send, through real HTTP, as changes.

mod calls;
mod floods;
mod receiving;
