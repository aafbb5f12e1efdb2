//! Planner.
