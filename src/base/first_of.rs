//! Long lists, printed in short.

use std::fmt;

/// Printed, the first of some numbers, and two dots where there are more.
pub(crate) struct FirstOf<'a, T>(pub &'a [T]);

impl<T: fmt::Debug> fmt::Debug for FirstOf<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        let mut list = f.debug_list();
        list.entries(self.0.iter().take(SHOWN));
        if self.0.len() > SHOWN { list.finish_non_exhaustive() } else { list.finish() }
    }
}
