//! What `cupeer run --on-hang` prints and keeps, and what `cupeer top` shows on a key.
