//! Abbreviated debug output of long lists.

use std::fmt;

/// Debug output: the first few elements, then `..` if there are more.
pub(crate) struct FirstOf<'a, T>(pub &'a [T]);

impl<T: fmt::Debug> fmt::Debug for FirstOf<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        let mut list = f.debug_list();
        list.entries(self.0.iter().take(SHOWN));
        if self.0.len() > SHOWN { list.finish_non_exhaustive() } else { list.finish() }
    }
}
