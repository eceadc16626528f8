//! Whole runs over files.
